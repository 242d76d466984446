package fleet

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
)

// What another node sends is validated, and what several nodes send is listed once.
func TestAnnotationsOfOtherNodes(t *testing.T) {
	found := annotations{}
	for range 2 {
		found.add([]ruledb.Annotation{{ID: "A", Text: "deployed"}, {ID: "B"}, {ID: "C", Text: strings.Repeat("x", ruledb.MaxAnnotationText+1)}})
	}
	if list := slices.Collect(maps.Values(found)); len(list) != 1 || list[0].ID != "A" {
		t.Errorf("%+v", list)
	}
}

// A node that is silent may have the annotation: that it is deleted cannot be said.
func TestDeleteAnnotationOfASilentNode(t *testing.T) {
	db, err := ruledb.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "rules.db"), ruledb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	seen := traffic.New()
	recorder := trafficdb.Start(trafficdb.Options{
		Traffic: seen, Node: "ME", Name: "here", Log: slog.New(slog.DiscardHandler),
		Database: func(context.Context) (*ruledb.DB, error) { return db, nil },
	})
	defer recorder.Close()
	f := New(Options{
		Traffic: seen, History: recorder,
		Members: func() []membership.KnownNode {
			return []membership.KnownNode{
				{ID: "ME", Self: true, Node: &membership.Node{Name: "here"}, Heard: time.Now()},
				{ID: "OTHER", Node: &membership.Node{Name: "there"}, Heard: time.Now()},
			}
		},
		Send:    func(context.Context, string, string, []byte) error { return nil },
		Problem: func() error { return nil },
	})
	defer f.Close()
	if deleted, err := f.DeleteAnnotation(t.Context(), "A"); deleted || err == nil || !strings.Contains(err.Error(), "there") {
		t.Errorf("deleted: %v, error %v", deleted, err)
	}
}
