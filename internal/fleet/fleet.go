package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
)

// Options are the parts of a node that the fleet needs.
type Options struct {
	Traffic *traffic.Traffic
	Members func() []membership.KnownNode // the nodes, this one first

	// Send sends a message to a node, or to all if it names none; with an answer, the number of its question. nil:
	// there are no others.
	Send func(ctx context.Context, to, answers string, message []byte) error

	// Problem returns why the others cannot be reached; nil if they can. It may be nil without Send.
	Problem func() error

	History *trafficdb.Recorder // nil: there is none
}

// A Fleet asks all nodes. Its methods may be called from several goroutines.
type Fleet struct {
	options Options
	busy    chan struct{} // a place for each question that is being answered

	mu        sync.Mutex
	asked     map[string]*waiting            // questions that wait for answers, by number
	following map[string]*Tail               // open tails of this node, by number
	followers map[followerID]*remoteFollower // tails of other nodes

	ctx   context.Context
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// Bounds of what nodes ask each other.
const (
	patience     = time.Second // how long an answer may take
	maxAnswering = 4           // questions answered at a time; further ones get no answer
	maxMembers   = 200         // nodes that are waited for
)

// New returns a fleet. Its Receive must be called with every message of another node.
func New(o Options) *Fleet {
	f := &Fleet{
		options: o, busy: make(chan struct{}, maxAnswering), asked: map[string]*waiting{},
		following: map[string]*Tail{}, followers: map[followerID]*remoteFollower{},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Close ends everything that runs for other nodes.
func (f *Fleet) Close() {
	f.stop()
	f.ended.Wait()
}

// A Node is one of the nodes that were asked.
type Node struct {
	ID, Name string
	Answered bool
	Problem  string // why it did not answer
}

// A message is what nodes send each other. One of its parts is set.
type message struct {
	Number string    `json:"number"` // of the question or the tail
	Ask    *question `json:"ask,omitempty"`
	Answer *answer   `json:"answer,omitempty"`
	Follow *follow   `json:"follow,omitempty"`
	Events *events   `json:"events,omitempty"`
}

// A question asks for counts, for recent requests, or for the history and what people wrote about it.
type question struct {
	Count  *traffic.Query  `json:"count,omitempty"`
	Recent *traffic.Filter `json:"recent,omitempty"`
	Most   int             `json:"most,omitempty"`
	Past   *traffic.Query  `json:"past,omitempty"`

	// Have is the last minute of nodes that need not be sent again, because the asking node read the same database.
	Have map[string]int64 `json:"have,omitempty"`

	Annotations      *traffic.Query `json:"annotations,omitempty"`
	DeleteAnnotation string         `json:"delete_annotation,omitempty"` // its ID
}

type answer struct {
	Stats  *traffic.Stats  `json:"stats,omitempty"`
	Recent []traffic.Event `json:"recent,omitempty"`

	Past []*trafficdb.Past `json:"past,omitempty"`

	Annotations []ruledb.Annotation `json:"annotations,omitempty"`
	Deleted     bool                `json:"deleted,omitempty"`
}

// delivered is an answer of a node.
type delivered struct {
	from string
	answer
}

// A waiting is a question that waits for answers.
type waiting struct {
	answers chan<- delivered
	heard   map[string]bool // the nodes that have answered
}

// Expects reports whether an answer of a node to a question, or events of a tail, are waited for. A node answers once.
func (f *Fleet) Expects(from, number string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.asked[number]; w != nil {
		return !w.heard[from]
	}
	return f.following[number] != nil
}

// Receive handles a message of another node. It does not block.
func (f *Fleet) Receive(from string, text []byte) {
	var m message
	if json.Unmarshal(text, &m) != nil {
		return // another version may write it
	}
	switch {
	case m.Ask != nil:
		f.reply(from, &m)
	case m.Answer != nil:
		f.take(from, &m)
	case m.Follow != nil:
		f.serve(followerID{from, m.Number}, m.Follow)
	case m.Events != nil:
		f.mu.Lock()
		tail := f.following[m.Number]
		f.mu.Unlock()
		if tail != nil {
			tail.deliver(f.name(from), m.Events)
		}
	}
}

// take passes an answer on to the question that waits for it. A node answers once.
func (f *Fleet) take(from string, m *message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.asked[m.Number]
	if w == nil || w.heard[from] || len(w.heard) == maxMembers {
		return
	}
	w.heard[from] = true
	select {
	case w.answers <- delivered{from, *m.Answer}:
	default: // more nodes than were asked
	}
}

// reply answers a question in the background, unless too many are being answered.
func (f *Fleet) reply(to string, m *message) {
	select {
	case f.busy <- struct{}{}:
	default:
		return
	}
	f.ended.Go(func() {
		defer func() { <-f.busy }()
		f.send(f.ctx, to, &message{Number: m.Number, Answer: f.answer(m.Ask)})
	})
}

// answer answers a question with what this node knows.
func (f *Fleet) answer(q *question) *answer {
	a := new(answer)
	if q.Count != nil && q.Count.Valid() {
		a.Stats = new(f.options.Traffic.Count(*q.Count))
	}
	if q.Recent != nil {
		a.Recent = fitting(f.options.Traffic.Recent(*q.Recent, min(max(q.Most, 0), maxRecent)))
	}
	if f.options.History != nil {
		f.answerFromHistory(q, a)
	}
	return a
}

// answerFromHistory answers what takes the database. Without it, a part is missing.
func (f *Fleet) answerFromHistory(q *question, a *answer) {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	if q.Past != nil && trafficdb.Valid(q.Past) {
		a.Past, _ = f.options.History.Read(ctx, *q.Past, q.Have) // what is in memory is there anyway
	}
	if q.Annotations != nil && trafficdb.Valid(q.Annotations) {
		a.Annotations, _ = f.options.History.Annotations(ctx, q.Annotations)
	}
	if q.DeleteAnnotation != "" {
		a.Deleted, _ = f.options.History.DeleteAnnotation(ctx, q.DeleteAnnotation)
	}
}

// Bounds of the requests in one answer.
const (
	maxRecent     = 10_000
	maxRecentSize = 8 << 20 // bytes
)

// fitting returns as many of the newest requests as fit in a message.
func fitting(recent []traffic.Event) []traffic.Event {
	size := 0
	for i := range recent {
		text, err := json.Marshal(&recent[i])
		if size += len(text); err != nil || size > maxRecentSize {
			return recent[:i]
		}
	}
	return recent
}

// send sends a message and ignores errors: the other node counts as one that did not answer.
func (f *Fleet) send(ctx context.Context, to string, m *message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := ""
	if m.Answer != nil || m.Events != nil {
		answers = m.Number
	}
	return f.options.Send(ctx, to, answers, text)
}

// selected returns the nodes of a name or an ID, or all, and whether this node is among them.
func (f *Fleet) selected(node string) (others []Node, self bool) {
	for _, k := range f.options.Members() {
		name := nameOf(&k)
		switch {
		case node != "" && node != name && node != k.ID:
		case k.Self:
			self = true
		case len(others) < maxMembers:
			others = append(others, Node{ID: k.ID, Name: name})
		}
	}
	return others, self
}

// Self returns this node.
func (f *Fleet) Self() Node {
	k := f.options.Members()[0]
	return Node{ID: k.ID, Name: nameOf(&k), Answered: true}
}

// name returns the name of a node.
func (f *Fleet) name(id string) string {
	for _, k := range f.options.Members() {
		if k.ID == id {
			return nameOf(&k)
		}
	}
	return id
}

// nameOf returns the name of a node, or its ID if no name is known.
func nameOf(k *membership.KnownNode) string {
	if k.Node == nil {
		return k.ID
	}
	return k.Node.Name
}

// askNodes asks other nodes and passes each answer to add. It sets which of them answered.
func (f *Fleet) askNodes(ctx context.Context, others []Node, q *question, add func(n *Node, a *answer)) {
	if len(others) == 0 {
		return
	}
	if problem := f.problem(); problem != "" {
		for i := range others {
			others[i].Problem = problem
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	number, answers := rand.Text(), make(chan delivered, len(others))
	f.mu.Lock()
	f.asked[number] = &waiting{answers, map[string]bool{}}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.asked, number)
	}()
	to := ""
	if len(others) == 1 {
		to = others[0].ID
	}
	problem := "no answer within 1 s"
	if err := f.send(ctx, to, &message{Number: number, Ask: q}); err != nil {
		problem = err.Error()
		cancel()
	}
	for missing := len(others); missing > 0; {
		select {
		case got := <-answers:
			i := slices.IndexFunc(others, func(n Node) bool { return n.ID == got.from })
			if i < 0 || others[i].Answered {
				continue
			}
			others[i].Answered = true
			missing--
			add(&others[i], &got.answer)
		case <-ctx.Done():
			missing = 0
		}
	}
	for i := range others {
		if !others[i].Answered {
			others[i].Problem = problem
		}
	}
}

// problem returns why the others cannot be asked; "" if they can.
func (f *Fleet) problem() string {
	if f.options.Send == nil {
		return "this node shares no Redis with it"
	}
	if err := f.options.Problem(); err != nil {
		return err.Error()
	}
	return ""
}

// Stats are the counts of several nodes.
type Stats struct {
	traffic.Stats
	Nodes []Node // that were asked, this one first if it was
}

// Count returns the counts of all nodes, or of those with a name or an ID.
func (f *Fleet) Count(ctx context.Context, q traffic.Query, node string) Stats {
	others, self := f.selected(node)
	all := Stats{Stats: traffic.Stats{Query: q, Now: time.Now().UTC(), Since: time.Now().UTC()}}
	if self {
		all.Stats, all.Nodes = f.options.Traffic.Count(q), []Node{f.Self()}
	} else {
		all.Series = make([]traffic.Counts, q.Steps())
	}
	f.askNodes(ctx, others, &question{Count: &q}, func(n *Node, a *answer) {
		if a.Stats != nil {
			all.Add(a.Stats)
		}
	})
	all.Nodes = append(all.Nodes, others...)
	return all
}

// An Event is a request that a node decided.
type Event struct {
	traffic.Event
	Node string // its name
}

// Recent returns up to most recent requests of all nodes, or of those with a name or an ID, newest first.
func (f *Fleet) Recent(ctx context.Context, filter traffic.Filter, most int, node string) []Event {
	others, self := f.selected(node)
	var found []Event
	add := func(node string, events []traffic.Event) {
		for i := range events {
			found = append(found, Event{events[i], node})
		}
	}
	if self {
		add(f.Self().Name, f.options.Traffic.Recent(filter, most))
	}
	f.askNodes(ctx, others, &question{Recent: &filter, Most: most}, func(n *Node, a *answer) { add(n.Name, a.Recent) })
	slices.SortStableFunc(found, func(a, b Event) int { return b.At.Compare(a.At) })
	return found[:min(len(found), most)]
}
