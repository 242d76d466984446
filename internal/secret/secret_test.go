package secret

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const canary = "c4n4ry"

// A text is not shown, however it is printed, encoded or logged, alone or in something else.
func TestText(t *testing.T) {
	type holder struct {
		Secret Text
		Inner  struct{ Secrets []Text }
		ByName map[string]Text
		Any    any
	}
	h := holder{Secret: canary, ByName: map[string]Text{"a": canary}, Any: Text(canary)}
	h.Inner.Secrets = []Text{canary}
	for _, value := range []any{Text(canary), []Text{canary}, map[string]Text{"a": canary}, h, &h} {
		outputs := map[string]string{}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%20.3s", "%t"} {
			outputs[verb] = fmt.Sprintf(verb, value)
		}
		if b, err := json.Marshal(value); err == nil {
			outputs["JSON"] = string(b)
		}
		if b, err := yaml.Marshal(value); err == nil {
			outputs["YAML"] = string(b)
		}
		if b, err := xml.Marshal(value); err == nil {
			outputs["XML"] = string(b)
		}
		var log bytes.Buffer
		for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
			slog.New(handler).With("with", value).Error("message", "value", value)
		}
		outputs["log"] = log.String()
		for how, text := range outputs {
			if strings.Contains(text, canary) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", canary)) {
				t.Errorf("%s of %T shows it: %s", how, value, text)
			}
			if how != "%t" && how != "%d" && !strings.Contains(text, Redacted) && how != "%20.3s" && how != "XML" {
				t.Errorf("%s of %T is %s", how, value, text)
			}
		}
	}
	if got := fmt.Sprintf("%v|%#v|%q", Text(""), Text(""), Text("")); got != `|""|""` {
		t.Errorf("an empty text is %s", got)
	}
	if string(Text(canary)) != canary {
		t.Error("the secret is lost")
	}
}
