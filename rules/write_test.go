package rules

import (
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/attribute"
)

var sameDocument = cmp.Options{cmpopts.IgnoreUnexported(Document{}), cmpopts.EquateEmpty()}

// rewritten checks that a written document is read as the same document.
func rewritten(t interface{ Errorf(string, ...any) }, doc *Document) {
	for _, text := range [][]byte{doc.YAML(), doc.JSON()} {
		again, err := Parse("again", text)
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			continue
		}
		if diff := cmp.Diff(doc, again, sameDocument); diff != "" {
			t.Errorf("%s\n(-want +got)\n%s", text, diff)
		}
	}
}

func TestExamplesAreRewrittenTheSame(t *testing.T) {
	for _, file := range exampleFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		rewritten(t, doc)
	}
}

// Any document at all: values of every type of the model, texts of every kind.
func TestDocumentsAreRewrittenTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := &Document{}
		draw(t, reflect.ValueOf(doc).Elem(), field{})
		rewritten(t, doc)
	})
}

var anyText = rapid.OneOf(
	rapid.SampledFrom([]string{"true", "off", "null", "~", "1_000", "007", "0x1f", "1e3", ".inf", "- a", "a: b", "#", "a #b", "{", "*", "&a", "!b", "?", "12:30:45",
		"|", ">", "%", "@", "`", "'", "\"", "\\", "\\n", "a\nb", "a\n\nb", "\ta", " a", "a ", "=", "<<", "---", "...", "é", "\u2028", "😀", "1.0", "user?", "2027-01-01", "-", ",", "[]"}),
	rapid.StringN(1, 12, 40).Filter(func(s string) bool { return checkText(s) }),
)

// checkText excludes what the parser rejects in every text.
func checkText(s string) bool {
	r := &reader{problemCollector: &problemCollector{source: &source{}}}
	_, ok := r.scalar(quotedOf(s))
	return ok
}

var anyName = rapid.StringMatching(`[A-Za-z0-9_-]{1,20}`)

// draw fills a value of the model with anything that the parser accepts.
func draw(t *rapid.T, v reflect.Value, f field) {
	switch to := v.Addr().Interface().(type) {
	case *time.Time:
		*to = time.Unix(rapid.Int64Range(1, 4_000_000_000).Draw(t, "time"), 0).UTC()
	case *Rate:
		*to = Rate{Count: rapid.Int64Range(0, algorithm.MaxCount).Draw(t, "count"), Window: time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "window")) * time.Millisecond}
		if rapid.Bool().Draw(t, "calendar") {
			to.Window, to.Period = 0, penstock.Period(rapid.IntRange(1, 5).Draw(t, "period"))
		}
	case *Duration:
		*to = Duration(rapid.Int64Range(1, 1e9).Draw(t, "duration")) * Duration(time.Millisecond)
	case *Seconds:
		draw(t, reflect.ValueOf((*Duration)(to)).Elem(), f)
	case *Budget:
		*to = Budget{Percent: rapid.Int64Range(1, 100).Draw(t, "percent")}
	case *KeyPart:
		*to = KeyPart{anyName.Draw(t, "name"), rapid.Bool().Draw(t, "optional"), rapid.SampledFrom([]int{0, 33, 48, 128}).Draw(t, "prefix")}
	case *penstock.Algorithm:
		*to = penstock.Algorithm(rapid.IntRange(1, 6).Draw(t, "algorithm"))
	case *penstock.Refill:
		*to = penstock.Refill(rapid.IntRange(0, 1).Draw(t, "refill"))
	case *algorithm.Overage:
		*to = algorithm.Overage(rapid.IntRange(0, 2).Draw(t, "overage"))
	case *attribute.CertificatePart:
		*to = attribute.CertificatePart(rapid.IntRange(1, 5).Draw(t, "certificate"))
	case *attribute.OnUnreadable:
		*to = attribute.OnUnreadable(rapid.IntRange(0, 1).Draw(t, "on_unreadable"))
	case *Mode:
		*to = Mode(rapid.IntRange(0, 2).Draw(t, "mode"))
	case *PathMatching:
		*to = PathMatching(rapid.IntRange(1, 7).Draw(t, "path_matching"))
	case *OnError:
		*to = OnError(rapid.IntRange(0, 2).Draw(t, "on_error"))
	case *Consistency:
		*to = Consistency(rapid.IntRange(0, 1).Draw(t, "consistency"))
	case *Failure:
		*to = Failure(rapid.IntRange(0, 3).Draw(t, "failure"))
	case *Values:
		*to = rapid.SliceOfN(anyText, 1, 3).Draw(t, "values")
	case *CostTerms:
		if rapid.Bool().Draw(t, "fixed") {
			to.Fixed = rapid.Int64Range(1, algorithm.MaxCount).Draw(t, "cost")
			return
		}
		drawFields(t, v)
	case *OverrideLimits:
		if to.Unlimited = rapid.Bool().Draw(t, "unlimited"); !to.Unlimited {
			to.Limits = make([]LimitTerms, 1)
			drawFields(t, reflect.ValueOf(&to.Limits[0]).Elem())
		}
	default:
		drawKind(t, v, f)
	}
}

func drawKind(t *rapid.T, v reflect.Value, f field) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		draw(t, v.Elem(), f)
	case reflect.String:
		v.SetString(anyText.Draw(t, f.name))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(rapid.Int64Range(f.min, f.max).Draw(t, f.name))
	case reflect.Struct:
		drawFields(t, v)
	case reflect.Slice:
		n := rapid.IntRange(int(f.min), 2).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			draw(t, v.Index(i), field{})
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 2).Draw(t, "fields") {
			value := reflect.New(v.Type().Elem()).Elem()
			draw(t, value, field{})
			v.SetMapIndex(reflect.ValueOf(anyName.Draw(t, "name")), value)
		}
	default:
		panic(fmt.Sprintf("no way to draw a %v", v.Type()))
	}
}

func drawFields(t *rapid.T, v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		if f.required || rapid.IntRange(0, 2).Draw(t, f.name+"?") == 0 {
			draw(t, v.Field(f.index), f)
		}
	}
}
