package rules

import (
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// option returns the setting of the terms for a difference, or nil if it is not set.
func (t *PathTerms) option(of urlform.Ignore) *bool {
	switch of {
	case urlform.Case:
		return t.IgnoreCase
	case urlform.TrailingSlash:
		return t.IgnoreTrailingSlash
	default:
		return t.IgnoreMatrixParameters
	}
}

// pathOption returns the setting of a rule, or else of the document, for a difference between paths, or nil if
// neither sets it. rule is nil for lists.
func (c *compiler) pathOption(of urlform.Ignore, rule *RuleTerms) *bool {
	if rule != nil {
		if own := rule.PathMatching.option(of); own != nil {
			return own
		}
	}
	return c.doc.PathMatching.option(of)
}

// ignored returns the differences between paths that a rule or the lists ignore.
func (c *compiler) ignored(rule *RuleTerms) (ignore urlform.Ignore) {
	for _, of := range []urlform.Ignore{urlform.Case, urlform.TrailingSlash, urlform.MatrixParameters} {
		if set := c.pathOption(of, rule); set != nil && *set {
			ignore |= of
		}
	}
	return ignore
}

// spellings warns about a penalty that clients may evade by spelling the path differently, unless the document
// says that the upstream servers distinguish these spellings.
func (c *compiler) spellings(p pattern.Path, rule *RuleTerms, at path) {
	if p.Text == "" || p.Text == "/" || !c.isValid(at) {
		return
	}
	sample := p.Sample("x", "")
	otherSlash, ok := strings.CutSuffix(sample, "/")
	if !ok {
		otherSlash += "/"
	}
	var evading, missing []string
	for _, way := range []struct {
		ignore urlform.Ignore
		name   string
		path   string
	}{
		{urlform.Case, "ignore_case", strings.ToUpper(sample)},
		{urlform.TrailingSlash, "ignore_trailing_slash", otherSlash},
		{urlform.MatrixParameters, "ignore_matrix_parameters", p.Sample("x", ";x=1")},
	} {
		if c.pathOption(way.ignore, rule) == nil && !p.Fits(p.Ignore.Path(way.path)) {
			evading, missing = append(evading, way.path), append(missing, way.name)
		}
	}
	if len(missing) > 0 {
		c.warn(at, complain("a server that takes %s for %s serves it without this penalty", strings.Join(evading, " or "), sample).
			suggest("set %s in path_matching to what your servers do", strings.Join(missing, ", ")))
	}
}

// upperPath matches a literal in an expression that begins like a path and has a capital letter.
var upperPath = regexp.MustCompile(`["']/[^"']*[A-Z][^"']*["']`)

// comparedPaths warns about an expression that compares the path with capitals, which it never has if case is
// ignored.
func (c *compiler) comparedPaths(when *expr.Expression, at path, ignore urlform.Ignore) {
	if when == nil || ignore&urlform.Case == 0 || !slices.Contains(when.Reads, "path") {
		return
	}
	if literal := upperPath.FindString(when.Text); literal != "" {
		c.warn(at, complain("the path is in lower case here, as path_matching ignores case, and never %.64s", literal).suggest("write it in lower case"))
	}
}
