package rules

import (
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/internal/enum"
	"github.com/penstock-io/penstock/internal/strictdoc"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
)

func (m PathMatching) String() string               { return enum.Name(pathNames, m, "PathMatching") }
func (m PathMatching) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// readNode reads a name. Earlier versions had a mapping of three booleans.
func (m *PathMatching) readNode(r *reader, n *node) {
	if n.Kind == strictdoc.Mapping {
		r.fail(n, complain("path_matching is the name of what your servers do, not a mapping").suggest("write path_matching: %s", successor(n)))
		return
	}
	text, ok := r.scalar(n)
	if !ok {
		return
	}
	at := slices.Index(pathNames, text)
	if at < 1 {
		r.fail(n, meantName(complain("unknown path_matching %.64q", text), text, pathNames[1:]))
		return
	}
	*m = PathMatching(at)
}

func (m *PathMatching) toNode() *node { return scalarOf(m.String()) }

func (m *PathMatching) schema(*schemas) map[string]any { return map[string]any{"enum": pathNames[1:]} }

// successor returns the setting that ignores least of those that ignore all that a mapping of booleans does.
func successor(n *node) PathMatching {
	var ignored urlform.Ignore
	for name, ignore := range map[string]urlform.Ignore{"ignore_case": urlform.Case, "ignore_trailing_slash": urlform.TrailingSlash, "ignore_matrix_parameters": urlform.MatrixParameters} {
		if set := n.Step(name); set != nil && set.Kind == strictdoc.Scalar && strings.EqualFold(set.Text, "true") {
			ignored |= ignore
		}
	}
	for _, m := range []PathMatching{ExactPaths, RailsPaths, ExpressPaths, SpringPaths} {
		if m.ignores()&ignored == ignored {
			return m
		}
	}
	return LoosePaths
}

// ignores returns the differences between paths that servers ignore. docs/explanation/path-matching.md has a table of
// what they do.
func (m PathMatching) ignores() urlform.Ignore {
	switch m {
	case ExactPaths, NginxPaths, GoPaths:
		return 0
	case ExpressPaths:
		return urlform.Case | urlform.TrailingSlash
	case RailsPaths:
		return urlform.TrailingSlash
	case SpringPaths:
		return urlform.TrailingSlash | urlform.MatrixParameters
	default:
		return urlform.Loose
	}
}

// ignored returns the differences between paths that a rule ignores, or the deny list if rule is nil.
func (c *compiler) ignored(rule *RuleTerms) urlform.Ignore {
	if rule != nil && rule.PathMatching != PathsUnset {
		return rule.PathMatching.ignores()
	}
	return c.doc.PathMatching.ignores()
}

var (
	// upperPath matches a literal in an expression that begins like a path and has a capital letter.
	upperPath = regexp.MustCompile(`["']/[^"']*[A-Z][^"']*["']`)
	// slashedPath matches a comparison of the whole path with a literal that ends in a slash.
	slashedPath = regexp.MustCompile(`\bpath\s*[=!]=\s*(?:"/[^"]+/"|'/[^']+/')`)
)

// comparedPaths warns about an expression that compares the path with a text that it never has, because differences
// are ignored.
func (c *compiler) comparedPaths(when *expr.Expression, at path, ignore urlform.Ignore) {
	if when == nil || !slices.Contains(when.Reads, "path") {
		return
	}
	if literal := upperPath.FindString(when.Text); literal != "" && ignore&urlform.Case != 0 {
		c.warn(at, complain("the path is in lower case here, and never %.64s", literal).suggest("write it in lower case, or set path_matching: exact"))
	}
	if literal := slashedPath.FindString(when.Text); literal != "" && ignore&urlform.TrailingSlash != 0 {
		c.warn(at, complain("the path never ends in a slash here, as in %.64s", literal).suggest("leave out the slash, or set path_matching: exact"))
	}
}
