package server

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A demoCall is one request of a demo client.
type demoCall struct {
	method, path string
	header       map[string]string
}

// A demoCaller is a client that sends requests. Its address is from a range reserved for documentation.
type demoCaller struct {
	share  int // of all requests, relative to the shares of others
	header map[string]string
	paths  []string // one is chosen per request; "POST /x" or "/x"
}

// A demoCast is the demo clients: many that stay within their limits, and a few that the sample rules deny. One
// client sends bursts.
type demoCast struct {
	callers []demoCaller
	shares  int // sum of all shares
	bursts  demoCaller
}

// How the rate of requests varies.
const (
	demoWave       = time.Minute      // from one peak to the next
	demoBurstEvery = 20 * time.Second // between two bursts
	demoBurst      = time.Second      // length of a burst
)

func newDemoCast() *demoCast {
	c := &demoCast{}
	from := func(address, agent string, more ...string) map[string]string {
		header := map[string]string{"X-Forwarded-For": address, "User-Agent": agent}
		for i := 0; i < len(more); i += 2 {
			header[more[i]] = more[i+1]
		}
		return header
	}
	add := func(share int, header map[string]string, paths ...string) {
		c.callers = append(c.callers, demoCaller{share, header, paths})
		c.shares += share
	}
	browsers := []string{"Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Macintosh)", "Mozilla/5.0 (iPhone)"}
	for i := range 12 { // visitors
		add(4, from(fmt.Sprintf("198.51.100.%d", 10+i), browsers[i%len(browsers)]), "/", "/products/lamp", "/products/chair", "/products/rug", "/cart", "/about")
	}
	for i := range 3 { // visitors who log in
		add(1, from(fmt.Sprintf("198.51.100.%d", 10+i), browsers[i]), "POST /login", "/account", "/account/orders", "/cart")
	}
	for i := range 5 { // visitors who chat
		add(1, from(fmt.Sprintf("198.51.100.%d", 40+i), browsers[i%len(browsers)], "X-Fingerprint", fmt.Sprintf("fp-%04x", 0xa1b0+i*37)), "POST /api/v1/chat", "/help")
	}
	for i, account := range []string{"bakery", "bookshop", "florist", "pharmacy", "garage"} { // accounts that search
		plan := []string{"free", "pro"}[i%2]
		add(2+5*(i%2), from(fmt.Sprintf("203.0.113.%d", 10+i), "shop-client/2.1", "X-Account", account, "X-Plan", plan), "/api/v1/search")
	}
	add(10, from("203.0.113.66", "scraper/0.3"), "/")                                                           // a scraper that copies the front page
	add(7, from("192.0.2.66", "login-tool/1.0"), "POST /login")                                                 // a client that tries passwords
	add(8, from("192.0.2.20", "shop-client/1.0", "X-Account", "warehouse", "X-Plan", "free"), "/api/v1/search") // an account whose client is in a loop
	add(5, from("198.51.100.99", browsers[0], "X-Fingerprint", "fp-beef"), "POST /api/v1/chat")                 // a visitor who chats a lot
	c.bursts = demoCaller{header: from("192.0.2.30", "export/3.0", "X-Account", "nightly-export", "X-Plan", "free"), paths: []string{"/api/v1/search"}}
	return c
}

// next returns the request that is due at a time after the first, if there is one.
func (c *demoCast) next(after time.Duration) (demoCall, bool) {
	if after%demoBurstEvery >= demoBurstEvery-demoBurst {
		return c.bursts.call(), true
	}
	height := 0.6 + 0.4*math.Sin(2*math.Pi*after.Seconds()/demoWave.Seconds())
	if rand.Float64() > height {
		return demoCall{}, false
	}
	n := rand.IntN(c.shares)
	for i := range c.callers {
		if n -= c.callers[i].share; n < 0 {
			return c.callers[i].call(), true
		}
	}
	return c.bursts.call(), true
}

func (c *demoCaller) call() demoCall {
	method, path := "GET", c.paths[rand.IntN(len(c.paths))]
	if i := len("POST "); path[0] != '/' {
		method, path = "POST", path[i:]
	}
	return demoCall{method, path, c.header}
}
