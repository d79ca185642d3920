package inventory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// writeTimeout is how long one attempt to write may take; firstRetry and lastRetry bound
	// the wait before the next one.
	writeTimeout = 10 * time.Second
	firstRetry   = 200 * time.Millisecond
	lastRetry    = 15 * time.Second
)

// queue has records written one batch after the other. Those that arrive while one is written
// share the next one.
type queue struct {
	mu      sync.Mutex
	waiting []*entry
	writing bool
	// failing is since when writes fail, zero if the last one did not, and err why.
	failing time.Time
	err     error
}

// entry has records that wait. done is closed when they are written.
type entry struct {
	records []*Record
	done    chan struct{}
}

// Write returns once records are stored. If ctx ends before, it returns why; some of them may be
// stored nevertheless.
func (p *Packs) Write(ctx context.Context, records ...*Record) error {
	q, e := &p.queue, &entry{records: records, done: make(chan struct{})}
	q.mu.Lock()
	if q.waiting = append(q.waiting, e); !q.writing {
		q.writing = true
		go p.flush()
	}
	q.mu.Unlock()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(e)
	if q.err != nil {
		return q.err
	}
	return fmt.Errorf("writing to the inventory: %w", ctx.Err())
}

// remove removes entries from those that wait. q.mu is held.
func (q *queue) remove(entries ...*entry) {
	q.waiting = slices.DeleteFunc(slices.Clone(q.waiting), func(e *entry) bool { return slices.Contains(entries, e) })
}

// Failing returns since when records cannot be written; zero if the last ones were.
func (p *Packs) Failing() time.Time {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.queue.failing
}

// flush writes until no records wait.
func (p *Packs) flush() {
	q, retry := &p.queue, firstRetry
	for {
		q.mu.Lock()
		batch := slices.Clone(q.waiting)
		q.writing = len(batch) > 0
		q.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		err := p.writeAll(batch)
		q.mu.Lock()
		if q.err = err; err == nil {
			q.failing, retry = time.Time{}, firstRetry
			q.remove(batch...)
		} else if q.failing.IsZero() {
			q.failing = p.now()
		}
		q.mu.Unlock()
		if err != nil {
			time.Sleep(retry)
			retry = min(2*retry, lastRetry)
			continue
		}
		for _, e := range batch {
			close(e.done)
		}
	}
}

// writeAll writes a batch, day by day. Records that an earlier attempt has written are skipped.
func (p *Packs) writeAll(batch []*entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	of := map[int64][]*Record{}
	for _, e := range batch {
		for _, record := range e.records {
			of[dayOfRecord(record)] = append(of[dayOfRecord(record)], record)
		}
	}
	for number, records := range of {
		if err := p.put(ctx, number, records); err != nil {
			return err
		}
	}
	return nil
}
