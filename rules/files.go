package rules

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// CompileFiles compiles several files as one set of rules: rules and lists follow one another in
// the order of the files, and each attribute and each rule is in one of them. Problems name the
// file they are in. See [Compile].
func CompileFiles(files []File, o Options) (*Snapshot, Problems, error) {
	if len(files) == 1 {
		doc, _ := Parse(files[0].Name, files[0].Data) // Compile tells its mistakes too
		return Compile(doc, o)
	}
	j := &joined{found: &found{source: &source{}}}
	j.parse(files)
	doc := j.document()
	c := newCompiler(doc, o)
	s := c.snapshot()
	warnings := j.locate(c.sorted(Warning))
	if c.mistakes > 0 {
		return nil, warnings, j.locate(c.sorted(Mistake))
	}
	return s, warnings, nil
}

// joined is several files as one text, whose lines are those of the files one after the other, and
// as one tree of what they say.
type joined struct {
	*found
	parts []part
	own   Problems // of files by themselves
}

// A part is a file and the lines before it.
type part struct {
	name  string
	lines int32
	root  *node // nil if it cannot be read
}

func (j *joined) parse(files []File) {
	var text strings.Builder
	var lines int32
	if len(files) == 0 {
		j.own = Problems{{Message: "there are no files"}}
	}
	for _, file := range files {
		if text.Len()+len(file.Data) > MaxDocument {
			j.own = append(j.own, Problem{Place: Place{File: file.Name}, Message: fmt.Sprintf("the files have more than %d bytes together", MaxDocument)})
			j.parts = nil
			return
		}
		f := parse(file.Name, string(file.Data)).found
		j.own = append(j.own, f.sorted(Mistake)...)
		if f.source.root != nil {
			f.source.root.shift(lines)
		}
		j.parts = append(j.parts, part{file.Name, lines, f.source.root})
		text.WriteString(f.source.text + "\n")
		lines += int32(strings.Count(f.source.text, "\n")) + 1
	}
	j.source.text = text.String()
}

// document returns what all files say together.
func (j *joined) document() *Document {
	doc := &Document{found: j.found}
	root := &node{kind: mappingNode, at: spot{1, 1}}
	complete := len(j.parts) > 0
	for _, p := range j.parts {
		if p.root == nil {
			complete = false
		} else if p.root.kind == mappingNode {
			j.join(root, p.root, nil)
		}
	}
	if complete { // what a missing file says, others may rest on
		j.source.root = root
		r := &reader{found: &found{source: j.source}}
		r.read(root, reflect.ValueOf(doc).Elem())
		j.broken = r.broken // which was found in the files by themselves, too
		j.names()
	}
	j.forgive(root)
	j.problems[Mistake] = append(j.own, j.problems[Mistake]...)
	j.mistakes += len(j.own)
	return doc
}

// join adds what a part says to the whole.
func (j *joined) join(whole, more *node, at path) {
	if whole.kind == listNode && more.kind == listNode {
		whole.items = append(whole.items, more.items...)
		return
	}
	if whole.kind != mappingNode || more.kind != mappingNode {
		return // one of them is not what it should be, which was told
	}
	for _, item := range more.items {
		at := at.with(item.key)
		have := whole.step(item.key)
		switch {
		case have == nil:
			item.items = slices.Clip(item.items)
			whole.items = append(whole.items, item)
		case len(at) == 1 || at[0] == "lists":
			j.join(have, &item, at)
		case j.partOf(have.keyAt.line) != j.partOf(item.keyAt.line):
			j.add(Mistake, at, item.keyAt, complain("%.64s is given twice", item.key).but("the first is at %v", j.place(have.keyAt)))
		}
	}
}

// names complains about rules of the same name. The compiler, which knows no files, passes over
// those it is told to be wrong.
func (j *joined) names() {
	all := j.source.root.step("rules")
	if all == nil || all.kind != listNode {
		return
	}
	first := map[string]spot{}
	for i := range all.items {
		name := all.items[i].step("name")
		if name == nil || name.kind != scalarNode || !ruleName.MatchString(name.text) {
			continue
		}
		where, taken := first[name.text]
		if !taken {
			first[name.text] = name.at
			continue
		}
		j.add(Mistake, path{"rules", i, "name"}, name.at, complain("the name %s is taken", name.text).but("by the rule at %v", j.place(where)))
	}
}

// forgive drops the complaints of files that have no rules, if another has.
func (j *joined) forgive(root *node) {
	told := root.step("rules") != nil
	j.own = slices.DeleteFunc(j.own, func(p Problem) bool {
		i := slices.IndexFunc(j.parts, func(part part) bool { return part.name == p.File })
		if p.Path != "rules" || i < 0 || j.parts[i].root.step("rules") != nil {
			return false
		}
		once := told
		told = true
		return once
	})
}

// partOf returns the index of the part that a line is in.
func (j *joined) partOf(line int32) int {
	after := slices.IndexFunc(j.parts, func(p part) bool { return p.lines >= line })
	if after < 0 {
		after = len(j.parts)
	}
	return after - 1
}

func (j *joined) place(at spot) Place {
	p := j.parts[j.partOf(at.line)]
	return Place{File: p.name, Line: int(at.line - p.lines), Column: int(at.column)}
}

// locate turns lines of the whole into lines of its parts, and sorts by them.
func (j *joined) locate(problems Problems) Problems {
	order := map[string]int{}
	for i, p := range j.parts {
		order[p.name] = i
	}
	for i := range problems {
		if p := &problems[i]; p.File == "" && p.Line > 0 {
			p.Place = j.place(spot{int32(p.Line), int32(p.Column)})
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems
}
