package pki

import (
	"bytes"
	"sync"
)

// parsedRequests keeps the requests that were parsed last: on its way to a
// certificate, each is parsed by the checks of its object, by policies, by
// approvers and by its signer. It is safe for concurrent use.
type parsedRequests struct {
	mu    sync.Mutex
	byDER map[string]*Request
	// order has the keys, the oldest at next.
	order [512]string
	next  int
}

// maxKeptRequest is the size of the largest request that is kept, in bytes:
// larger ones are rare, and would take memory.
const maxKeptRequest = 4 << 10

var parsedLast = &parsedRequests{byDER: map[string]*Request{}}

func (p *parsedRequests) find(der []byte) *Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byDER[string(der)]
}

func (p *parsedRequests) keep(r *Request) {
	if len(r.Raw) > maxKeptRequest {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := string(r.Raw)
	if p.byDER[key] != nil {
		return
	}
	delete(p.byDER, p.order[p.next])
	p.byDER[key], p.order[p.next] = r, key
	p.next = (p.next + 1) % len(p.order)
}

// parse returns the request that der has been parsed to before, or parses
// it. What it returns does not change if der is modified later.
func (p *parsedRequests) parse(der []byte, parse func([]byte) (*Request, error)) (*Request, error) {
	if kept := p.find(der); kept != nil {
		return kept, nil
	}
	r, err := parse(bytes.Clone(der))
	if err == nil {
		p.keep(r)
	}
	return r, err
}
