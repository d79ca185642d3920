package packstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
)

const (
	// journalPrefix begins the names of journals.
	journalPrefix = "open-"
	// journalRecords is from how many records on a journal gets no others: each write
	// contains all of them.
	journalRecords = 40
	// maxWaiting is how many records wait for a journal that cannot be written at most. The
	// first to have waited is given up then.
	maxWaiting = 1000
	// writeTimeout is how long one write may take.
	writeTimeout = 10 * time.Second
	// firstRetry and lastRetry bound the wait before a failed write is tried again.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// errCrowded means that a record was given up for others.
var errCrowded = errors.New("too many records wait for the inventory")

// Journal writes records before they are packed. Records that are added while a write is under
// way share the next one. It is safe for concurrent use.
type Journal struct {
	store  *Store
	writer string

	mu      sync.Mutex
	waiting []*entry
	writing bool
	stopped bool
	retry   chan struct{} // closed by Stop
	// failing is since when writes fail, zero if the last one did not; err is why.
	failing time.Time
	err     error

	// number, object and records are the current journal. Only flush uses them.
	number  int
	object  *recordsv1alpha1.CertificatePack
	records []*inventory.Record
}

// entry is a record that waits for a write.
type entry struct {
	record *inventory.Record
	done   chan struct{} // closed when it is written, or err says why not
	err    error
}

// NewJournal returns a journal of this process in a store.
func NewJournal(s *Store) *Journal {
	return &Journal{store: s, writer: strings.ToLower(rand.Text()[:10]), retry: make(chan struct{})}
}

// Write returns once a record is stored. If ctx ends before, it returns the reason of the
// last failure; the record stays in the queue, unless withdraw is true.
func (j *Journal) Write(ctx context.Context, record *inventory.Record, withdraw bool) error {
	e := &entry{record: record, done: make(chan struct{})}
	j.mu.Lock()
	j.waiting = append(j.waiting, e)
	if len(j.waiting) > maxWaiting {
		j.waiting[0].end(errCrowded)
		j.waiting = j.waiting[1:]
	}
	if !j.writing {
		j.writing = true
		go j.flush()
	}
	j.mu.Unlock()
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for n, waiting := range j.waiting {
		if withdraw && waiting == e {
			j.waiting = append(j.waiting[:n:n], j.waiting[n+1:]...)
			break
		}
	}
	if j.err != nil {
		return j.err
	}
	return fmt.Errorf("writing a journal: %w", ctx.Err())
}

func (e *entry) end(err error) {
	e.err = err
	close(e.done)
}

// Failing returns since when records cannot be written; zero if they can.
func (j *Journal) Failing() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failing
}

// Stop ends the attempts to write again what could not be written.
func (j *Journal) Stop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.stopped {
		j.stopped = true
		close(j.retry)
	}
}

// flush writes the waiting records until none is left.
func (j *Journal) flush() {
	for pause := firstRetry; ; {
		j.mu.Lock()
		batch := j.waiting
		if j.stopped && j.err != nil {
			for _, e := range batch {
				e.end(j.err)
			}
			batch = nil
		}
		if len(batch) == 0 {
			j.waiting, j.writing, j.failing, j.err = nil, false, time.Time{}, nil
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		written, err := j.append(ctx, batch)
		cancel()
		j.settle(batch[:written], err)
		if err == nil {
			pause = firstRetry
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-j.retry:
			timer.Stop()
		}
		pause = min(2*pause, lastRetry)
	}
}

// settle notes the result of a write.
func (j *Journal) settle(written []*entry, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err = err; err == nil {
		j.failing = time.Time{}
	} else if j.failing.IsZero() {
		j.failing = j.store.cfg.Now()
	}
	done := map[*entry]bool{}
	for _, e := range written {
		done[e] = true
	}
	var rest []*entry
	for _, e := range j.waiting {
		if !done[e] {
			rest = append(rest, e)
			continue
		}
		e.end(nil)
	}
	j.waiting = rest
}

// append writes the first of the records into the current journal, or a new one, and returns
// how many it has written.
func (j *Journal) append(ctx context.Context, batch []*entry) (written int, err error) {
	var added []*inventory.Record
	for _, e := range batch {
		added = append(added, e.record)
	}
	if len(j.records) >= journalRecords {
		j.object = nil
	}
	if j.object != nil {
		rest, err := j.write(ctx, j.object, j.records, added)
		if err == nil {
			return len(added) - len(rest), nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return 0, err
		}
		// Its records are packed, or an earlier write had an effect after all.
		j.object = nil
	}
	j.number++
	object := &recordsv1alpha1.CertificatePack{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.store.cfg.Namespace, Name: fmt.Sprintf("%s%s-%d", journalPrefix, j.writer, j.number),
	}}
	j.store.writesTo(object.Name)
	rest, err := j.write(ctx, object, nil, added)
	return len(added) - len(rest), err
}

// write writes a journal with the records that it has and those that are added, and returns the
// ones that have no room.
func (j *Journal) write(ctx context.Context, object *recordsv1alpha1.CertificatePack, has, added []*inventory.Record) (rest []*inventory.Record, err error) {
	value, rest, err := inventory.Pack(nil, append(has[:len(has):len(has)], added...))
	if err != nil {
		return added, fmt.Errorf("writing a journal: %w", err)
	}
	if len(rest) == len(added) { // it is full
		j.object = nil
		return rest, nil
	}
	next := object.DeepCopy()
	if err := fill(next, value, map[string]string{recordsv1alpha1.StateLabel: recordsv1alpha1.Open}); err != nil {
		return added, err
	}
	if next.ResourceVersion == "" {
		err = j.store.cfg.Client.Create(ctx, next)
	} else {
		err = j.store.cfg.Client.Update(ctx, next)
	}
	if err != nil {
		return added, err
	}
	added = added[:len(added)-len(rest)]
	j.store.Add(added...)
	j.store.resize(next.Name, next)
	j.object, j.records = next, append(has[:len(has):len(has)], added...)
	return rest, nil
}

// writesTo notes the journal that this process writes to.
func (s *Store) writesTo(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = name
}
