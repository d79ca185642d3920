package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxWaiting is how many calls wait for Packs that cannot be written at most. The first to
	// have waited is given up then.
	maxWaiting = 1000
	// writeTimeout is how long one attempt to write may take.
	writeTimeout = 10 * time.Second
	// firstRetry and lastRetry bound the wait before a failed write is tried again.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// queue has records written one batch after the other. Those that arrive while one is written
// share the next one.
type queue struct {
	put func(ctx context.Context, day int64, records []*Record) error
	now func() time.Time

	mu      sync.Mutex
	waiting []*entry
	writing bool
	// failing is since when writes fail, zero if they do not, and err why.
	failing time.Time
	err     error
}

// entry has records that wait, and is done when they are written or given up.
type entry struct {
	records []*Record
	done    chan struct{}
	err     error
}

var errCrowded = errors.New("too many records wait for the inventory")

// Write returns once records are stored. If ctx ends before, it returns why; they are still
// stored when that is possible, unless withdraw is true.
func (p *Packs) Write(ctx context.Context, withdraw bool, records ...*Record) error {
	q, e := &p.queue, &entry{records: records, done: make(chan struct{})}
	q.mu.Lock()
	if q.waiting = append(q.waiting, e); len(q.waiting) > maxWaiting {
		q.end(errCrowded, q.waiting[:1])
	}
	if !q.writing {
		q.writing = true
		go q.flush()
	}
	q.mu.Unlock()
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if withdraw {
		q.waiting = slices.DeleteFunc(slices.Clone(q.waiting), func(waiting *entry) bool { return waiting == e })
	}
	if q.err != nil {
		return q.err
	}
	return fmt.Errorf("writing to the inventory: %w", ctx.Err())
}

// Failing returns since when records cannot be written; zero if they can.
func (p *Packs) Failing() time.Time {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.queue.failing
}

// end removes entries from those that wait. q.mu is held.
func (q *queue) end(err error, entries []*entry) {
	for _, e := range entries {
		if slices.Contains(q.waiting, e) {
			e.err = err
			close(e.done)
		}
	}
	q.waiting = slices.DeleteFunc(slices.Clone(q.waiting), func(e *entry) bool { return slices.Contains(entries, e) })
}

// flush writes until no records wait.
func (q *queue) flush() {
	for retry := firstRetry; ; {
		q.mu.Lock()
		batch := slices.Clone(q.waiting)
		if len(batch) == 0 {
			q.writing, q.failing, q.err = false, time.Time{}, nil
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		err := q.write(batch)
		q.mu.Lock()
		if q.err = err; err == nil {
			q.end(nil, batch)
			q.failing, retry = time.Time{}, firstRetry
		} else if q.failing.IsZero() {
			q.failing = q.now()
		}
		q.mu.Unlock()
		if err != nil {
			time.Sleep(retry)
			retry = min(2*retry, lastRetry)
		}
	}
}

// write writes a batch, all days in one attempt. Records that were written before are skipped.
func (q *queue) write(batch []*entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	of := map[int64][]*Record{}
	for _, e := range batch {
		for _, record := range e.records {
			number := dayOfRecord(record)
			of[number] = append(of[number], record)
		}
	}
	for number, records := range of {
		if err := q.put(ctx, number, records); err != nil {
			return err
		}
	}
	return nil
}
