package rules

// PathBranches are a trie over the segments of path patterns. All its edges are in one map: a map
// for each segment would be several times as large.
type pathBranches struct {
	edges map[edge]int32
	nodes []pathNode // the root first
}

type edge struct {
	from    int32
	segment string
}

type pathNode struct {
	any  int32 // the node after {name}; 0: none
	here ref   // for a path that ends here
	rest ref   // for {name...} here
}

func newPathBranches() *pathBranches {
	return &pathBranches{edges: map[edge]int32{}, nodes: make([]pathNode, 1)}
}

func (b *pathBranches) add(pattern string, to ref) {
	at := int32(0)
	for pattern != "" {
		var segment string
		segment, pattern = nextSegment(pattern)
		switch {
		case !isWildcard(segment):
			to, ok := b.edges[edge{at, segment}]
			if !ok {
				to = b.grow()
				b.edges[edge{at, segment}] = to
			}
			at = to
		case isRest(segment):
			b.nodes[at].rest = to
			return
		default:
			if b.nodes[at].any == 0 {
				to := b.grow()
				b.nodes[at].any = to
			}
			at = b.nodes[at].any
		}
	}
	b.nodes[at].here = to
}

func (b *pathBranches) grow() int32 {
	b.nodes = append(b.nodes, pathNode{})
	return int32(len(b.nodes) - 1)
}

// candidates of what is left of a path at a node. It goes no deeper than patterns are long.
func (b *pathBranches) candidates(t *tree, at int32, path string, v *callValues, out []int32) []int32 {
	n := &b.nodes[at]
	if path == "" {
		return t.follow(n.here, v, out)
	}
	out = t.follow(n.rest, v, out)
	segment, path := nextSegment(path)
	if to, ok := b.edges[edge{at, segment}]; ok {
		out = b.candidates(t, to, path, v, out)
	}
	if n.any != 0 && segment != "" {
		out = b.candidates(t, n.any, path, v, out)
	}
	return out
}
