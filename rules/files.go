package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

// A File is one file of the rules, with the name that problems use for it.
type File struct {
	Name string
	Data []byte
}

// CompileFiles compiles several files as one set of rules. Rules and lists follow one another in the order of the
// files. Each attribute and each rule is defined in only one file. Problems name the file they are in. See
// [Compile].
func CompileFiles(files []File, o Options) (*Snapshot, Problems, error) {
	return CompileContext(context.Background(), files, o)
}

// CompileContext is [CompileFiles] with a context. It stops soon after the context ends and returns the context's
// error.
func CompileContext(ctx context.Context, files []File, o Options) (*Snapshot, Problems, error) {
	if len(files) == 1 {
		return compile(parse(ctx, files[0].Name, string(files[0].Data)), o)
	}
	j := &joinedFiles{problemCollector: &problemCollector{ctx: ctx, source: &source{}}}
	j.parse(files)
	s, warnings, err := compile(j.document(), o)
	if mistakes, ok := errors.AsType[Problems](err); ok {
		err = j.locate(mistakes)
	}
	return s, j.locate(warnings), err
}

// joinedFiles holds several files as one text, whose lines are those of the files in order, and as one tree.
type joinedFiles struct {
	*problemCollector
	parts []part
	nodes int
	own   Problems // problems of single files, and of all together
}

// A part is a file and the number of lines before it.
type part struct {
	name  string
	lines int32
	root  *node // nil if it cannot be read
}

func (j *joinedFiles) parse(files []File) {
	var text strings.Builder
	var lines int32
	if len(files) == 0 {
		j.own = Problems{{Message: "there are no files"}}
	}
	for _, file := range files {
		if text.Len()+len(file.Data) > MaxDocument {
			j.tooMany(file, "bytes", MaxDocument)
			return
		}
		f := parse(j.ctx, file.Name, string(file.Data)).found
		if j.stopped = f.stopped; j.stopped != nil {
			j.parts = nil
			return
		}
		if j.own = append(j.own, f.sorted(Mistake)...); len(j.own) > maxProblems {
			j.parts = nil
			return
		}
		if root := f.source.root; root != nil {
			root.Shift(lines)
			if j.nodes += root.Count(); j.nodes > maxNodesTogether {
				j.tooMany(file, "values", maxNodesTogether)
				return
			}
		}
		j.parts = append(j.parts, part{file.Name, lines, f.source.root})
		text.WriteString(f.source.text + "\n")
		lines += int32(strings.Count(f.source.text, "\n")) + 1
	}
	j.source.text = text.String()
}

// tooMany reports the file that exceeds what all files together may have.
func (j *joinedFiles) tooMany(file File, what string, most int) {
	j.own = append(j.own, Problem{Position: Position{File: file.Name}, Message: fmt.Sprintf("the files have more than %d %s together", most, what)})
	j.parts = nil
}

// document returns the document that all files form together.
func (j *joinedFiles) document() *Document {
	doc := &Document{found: j.problemCollector}
	root := &node{Kind: strictdoc.Mapping, At: position{Line: 1, Column: 1}}
	complete := len(j.parts) > 0
	for _, p := range j.parts {
		if p.root == nil {
			complete = false
		} else if p.root.Kind == strictdoc.Mapping {
			j.join(root, p.root, nil)
		}
	}
	j.dropEmptyFileErrors(root)
	if complete { // others may depend on the contents of a missing file
		j.source.root = root
		r := &reader{problemCollector: &problemCollector{ctx: j.ctx, source: j.source}}
		r.read(root, reflect.ValueOf(doc).Elem())
		j.broken, j.stopped = r.broken, r.stopped
		j.addNew(r.sorted(Mistake))
		j.names()
	}
	j.problems[Mistake] = append(j.own, j.problems[Mistake]...)
	j.mistakes += len(j.own)
	return doc
}

// addNew adds errors of the whole that no file has by itself, such as too many rules in all files together.
func (j *joinedFiles) addNew(mistakes Problems) {
	told := map[Position]bool{}
	for _, p := range j.own {
		told[p.Position] = true
	}
	for _, p := range j.locate(mistakes) {
		if !told[p.Position] {
			j.own = append(j.own, p)
		}
	}
}

// join adds the contents of a part to the whole.
func (j *joinedFiles) join(whole, more *node, at path) {
	if whole.Kind == strictdoc.List && more.Kind == strictdoc.List {
		whole.Items = append(whole.Items, more.Items...)
		return
	}
	if whole.Kind != strictdoc.Mapping || more.Kind != strictdoc.Mapping {
		return // one has the wrong kind, which is already reported
	}
	for _, item := range more.Items {
		if len(whole.Items) > strictdoc.MaxFields {
			return // reported when the whole is read
		}
		at := at.with(item.Key)
		have := whole.Step(item.Key)
		switch {
		case have == nil:
			item.Items = slices.Clip(item.Items)
			whole.Items = append(whole.Items, item)
		case len(at) == 1 && item.Kind != strictdoc.Scalar || at[0] == "lists":
			j.join(have, &item, at)
		case j.partOf(have.KeyAt.Line) != j.partOf(item.KeyAt.Line):
			j.add(Mistake, at, item.KeyAt, complain("%.64s is given twice", item.Key).suggest("the first is at %v", j.place(have.KeyAt)))
		}
	}
}

// names reports rules with the same name in different files. The compiler does not know about files and skips the
// ones reported here.
func (j *joinedFiles) names() {
	all := j.source.root.Step("rules")
	if all == nil || all.Kind != strictdoc.List {
		return
	}
	first := map[string]position{}
	for i := range all.Items {
		name := all.Items[i].Step("name")
		if name == nil || name.Kind != strictdoc.Scalar || !ruleName.MatchString(name.Text) {
			continue
		}
		where, taken := first[name.Text]
		if !taken {
			first[name.Text] = name.At
			continue
		}
		j.add(Mistake, path{"rules", i, "name"}, name.At, complain("the name %s is taken", name.Text).suggest("by the rule at %v", j.place(where)))
	}
}

// dropEmptyFileErrors drops the complaints about files without rules if another file has some.
func (j *joinedFiles) dropEmptyFileErrors(root *node) {
	told := root.Step("rules") != nil
	j.own = slices.DeleteFunc(j.own, func(p Problem) bool {
		i := slices.IndexFunc(j.parts, func(part part) bool { return part.name == p.File })
		if p.Path != "rules" || i < 0 || j.parts[i].root.Step("rules") != nil {
			return false
		}
		once := told
		told = true
		return once
	})
}

// partOf returns the index of the part that contains a line.
func (j *joinedFiles) partOf(line int32) int {
	after := slices.IndexFunc(j.parts, func(p part) bool { return p.lines >= line })
	if after < 0 {
		after = len(j.parts)
	}
	return after - 1
}

func (j *joinedFiles) place(at position) Position {
	p := j.parts[j.partOf(at.Line)]
	return Position{File: p.name, Line: int(at.Line - p.lines), Column: int(at.Column)}
}

// locate converts lines of the whole to lines of its parts, and sorts by them.
func (j *joinedFiles) locate(problems Problems) Problems {
	order := map[string]int{}
	for i, p := range j.parts {
		order[p.name] = i
	}
	for i := range problems {
		if p := &problems[i]; p.File == "" && p.Line > 0 {
			p.Position = j.place(position{Line: int32(p.Line), Column: int32(p.Column)})
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems
}
