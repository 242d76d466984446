package messages

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Message is text that a user can see.
type Message struct {
	Package string // a folder of the repository, "." for the root
	Kind    Kind
	Level   string   // of a log event: "info"
	Fields  []string // of a log event
	Text    string
}

// Kind says where a message appears.
type Kind string

// Kinds of messages.
const (
	Error Kind = "error" // made by errors.New or fmt.Errorf
	Log   Kind = "log"
	Help  Kind = "help" // of a setting or a field, in a struct tag
	Text  Kind = "text" // anything else: printed, part of a problem document, of a page
)

// ErrNone means that there is no Go file below a folder.
var ErrNone = errors.New("no messages")

// skipped are folders whose text no user of the program sees.
var skipped = map[string]bool{"bench": true, "tools": true, "testdata": true, "node_modules": true, "storetest": true, "e2e": true, "deploy": true, "bin": true, "dist": true}

// Go returns the messages of the Go packages below root, sorted. isForTests says which of them only tests import.
func Go(root string, isForTests func(pkg string) bool) ([]Message, error) {
	var found []Message
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root && (skipped[entry.Name()] || strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") {
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(relative))
		if isForTests(pkg) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool { return visit(n, pkg, &found) })
		return nil
	})
	if err == nil && len(found) == 0 {
		err = ErrNone
	}
	return sorted(found), err
}

func sorted(found []Message) []Message {
	slices.SortFunc(found, compare)
	return slices.CompactFunc(found, func(a, b Message) bool { return compare(a, b) == 0 })
}

func compare(a, b Message) int {
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text),
		cmp.Compare(a.Level, b.Level), slices.Compare(a.Fields, b.Fields))
}

// visit adds the messages of a node, and reports whether to look inside it.
func visit(n ast.Node, pkg string, found *[]Message) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.Field:
		if n.Tag != nil {
			tag, _ := strconv.Unquote(n.Tag.Value)
			if doc := reflect.StructTag(tag).Get("doc"); doc != "" {
				*found = append(*found, Message{Package: pkg, Kind: Help, Text: doc})
			}
		}
		return false
	case *ast.CallExpr:
		if m, rest, ok := call(n); ok {
			m.Package = pkg
			*found = append(*found, m)
			for _, argument := range rest {
				ast.Inspect(argument, func(n ast.Node) bool { return visit(n, pkg, found) })
			}
			return false
		}
	case ast.Expr:
		if text, ok := constant(n); ok {
			if sentence.MatchString(text) && !foreign.MatchString(text) {
				*found = append(*found, Message{Package: pkg, Kind: Text, Text: text})
			}
			return false
		}
	}
	return true
}

// sentence is text with at least two words.
var sentence = regexp.MustCompile(`[A-Za-z]{2,}[,:;.)'"]* [(a-zA-Z%"'\x60]`)

// foreign is text for a program: SQL, Lua, markup, the names of headers.
var foreign = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|WITH|BEGIN|LOCK|NOTIFY|LISTEN)\b|^\s*(<|--|local )|^default-src|^[A-Z][A-Za-z-]+: `)

var levels = map[string]string{"Debug": "debug", "Info": "info", "Warn": "warn", "Error": "error"}

// call returns the message of a call that makes an error or logs an event, and the arguments that may hold others.
func call(c *ast.CallExpr) (m Message, rest []ast.Expr, ok bool) {
	selector, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) == 0 {
		return m, nil, false
	}
	of, _ := selector.X.(*ast.Ident)
	name := selector.Sel.Name
	if of != nil && (of.Name == "errors" && name == "New" || of.Name == "fmt" && name == "Errorf") {
		text, ok := constant(c.Args[0])
		return Message{Kind: Error, Text: text}, c.Args[1:], ok
	}
	at := 0
	if short, isContext := strings.CutSuffix(name, "Context"); isContext {
		name, at = short, 1
	}
	level := levels[name]
	if name == "LogAttrs" || name == "Log" && len(c.Args) > 2 {
		level, at = "by case", 2
	}
	if level == "" || len(c.Args) <= at {
		return m, nil, false
	}
	text, ok := constant(c.Args[at])
	if !ok {
		return m, nil, false
	}
	return Message{Kind: Log, Level: level, Text: text, Fields: fields(c.Args[at+1:])}, c.Args[at+1:], true
}

// fields are the names in the arguments of a log event: "name", value or slog.String("name", value).
func fields(arguments []ast.Expr) (names []string) {
	for i := 0; i < len(arguments); i++ {
		if attribute, isCall := arguments[i].(*ast.CallExpr); isCall && len(attribute.Args) == 2 {
			if name, ok := constant(attribute.Args[0]); ok {
				names = append(names, name)
				continue
			}
		}
		if name, ok := constant(arguments[i]); ok {
			names = append(names, name)
			i++
		}
	}
	return names
}

// constant is the text of a literal, or of several with + between them. What is not a literal stands as "…".
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.ParenExpr:
		return constant(e.X)
	case *ast.BinaryExpr:
		left, isLeft := constant(e.X)
		right, isRight := constant(e.Y)
		if e.Op != token.ADD || !isLeft && !isRight {
			return "", false
		}
		if !isLeft {
			left = "…"
		}
		if !isRight {
			right = "…"
		}
		return left + right, true
	}
	return "", false
}

var (
	webComment = regexp.MustCompile(`/\*(?s:.*?)\*/|(?m:(?:^|\s)//.*$|^import [^']*'[^']*'$|^\} from '[^']*'$)`)
	webString  = regexp.MustCompile("'(?:[^'\\\\\n]|\\\\.)*'|\"[^\"\n]*\"|`[^`]*`")
	webText    = regexp.MustCompile(`[>}]([^<>{}=;|&]*[A-Za-z]{2}[^<>{}=;|&]*)[<{]`)
	webProse   = regexp.MustCompile(`^[A-Z][a-z]+$|[A-Za-z]{2,}[,:;.)]* [(a-zA-Z$]`)
	webStyle   = regexp.MustCompile(`^[a-z0-9-]+( [a-z0-9-]+)* ?$|^\.?/|^M[\d.]|^https?:`)
	space      = regexp.MustCompile(`\s+`)
	webCode    = regexp.MustCompile(`\b(?:function|interface|set[A-Z]\w*)\b *[({\w]|\w\(|=>|\)\)|[\[\]]|''|\)? :|^\s*\(\)|^\s*[:?] |\) *:|^[\s,)]*\b(?:return|catch|const|else|import|export|type|void|extends|Promise|Array|Partial)\b|^, \w+:$`)
	isLabel    = regexp.MustCompile(`(?:label|title|placeholder|alt|aria-label)=["']$`)
)

// Web returns the text in the TypeScript sources below root: literals that read as prose, and text between tags.
func Web(root string) ([]Message, error) {
	var found []Message
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasPrefix(filepath.Ext(name), ".ts") || strings.Contains(name, ".test.") || strings.Contains(name, ".gen.") {
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, text := range webMessages(string(source), filepath.Ext(name) == ".tsx") {
			found = append(found, Message{Package: "console/" + filepath.Base(name), Kind: Text, Text: text})
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = ErrNone
	}
	return sorted(found), err
}

// webMessages returns the text of one source. Only a .tsx file has markup.
func webMessages(source string, isMarkup bool) (texts []string) {
	source = webComment.ReplaceAllString(source, "")
	add := func(text string) {
		if text = strings.TrimSpace(space.ReplaceAllString(text, " ")); text != "" {
			texts = append(texts, text)
		}
	}
	for _, at := range webString.FindAllStringIndex(source, -1) {
		text := source[at[0]+1 : at[1]-1]
		before := source[max(0, at[0]-20) : at[0]+1]
		if isLabel.MatchString(before) || webProse.MatchString(text) && !webStyle.MatchString(text) {
			add(text)
		}
	}
	if !isMarkup {
		return texts
	}
	for rest := webString.ReplaceAllString(source, "''"); ; {
		at := webText.FindStringSubmatchIndex(rest)
		if at == nil {
			return texts
		}
		if text := rest[at[2]:at[3]]; !webCode.MatchString(text) {
			add(text)
		}
		rest = rest[at[3]:]
	}
}
