// Package revoked watches the Revocations of a cluster and stores the revocation lists signed
// for them.
//
// A cluster has no inventory: the Revocations are the truth, and each process reads them. A
// certificate stays revoked until the process ends, even if the Revocation or its definition
// is deleted: a deletion must not reverse the decision of an administrator.
package revoked

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
)

// undefinedPause is the time between two looks for a definition that does not exist.
const undefinedPause = 2 * time.Second

// again is the back-off while the API is away. It is short, because new Revocations have no
// effect until then.
var again = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 5 * time.Second}

// Follower keeps an index of what is revoked. It is safe for concurrent use.
type Follower struct {
	objects dynamic.ResourceInterface
	index   *revocation.Index
	read    signal

	mu   sync.Mutex // guards last
	last int64
}

// signal tells any number of goroutines that something has happened.
type signal struct {
	once sync.Once
	done chan struct{}
}

func (s *signal) set() { s.once.Do(func() { close(s.done) }) }

func (s *signal) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// New returns a follower of the Revocations that client reads.
func New(client dynamic.Interface) *Follower {
	return &Follower{
		objects: client.Resource(v1alpha1.GroupVersion.WithResource("revocations")), index: revocation.NewIndex(), read: signal{done: make(chan struct{})},
	}
}

// Revoked returns what is revoked.
func (f *Follower) Revoked() *revocation.Index { return f.index }

// AwaitRead returns when all Revocations were read once. Without their definition, there are
// none.
func (f *Follower) AwaitRead(ctx context.Context) error { return f.read.wait(ctx) }

// Start follows until ctx ends.
func (f *Follower) Start(ctx context.Context) error {
	follow(ctx, "", f.objects.List, f.objects.Watch, &unstructured.Unstructured{}, f.store())
	return nil
}

func (f *Follower) store() folding { return folding{fold: f.fold, gone: func() {}, read: f.read.set} }

// follow keeps a store up to date with the objects that a field selector selects, until ctx ends.
func follow[L runtime.Object](ctx context.Context, only string, list func(context.Context, metav1.ListOptions) (L, error),
	open func(context.Context, metav1.ListOptions) (watch.Interface, error), of runtime.Object, to folding) {
	from, backoff := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = only
			return whenDefined(ctx, to, options, list)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = only
			return whenDefined(ctx, to, options, open)
		},
	}, again
	cache.NewReflectorWithOptions(from, of, to, cache.ReflectorOptions{Name: "revocations", Backoff: &backoff}).RunWithContext(ctx)
}

// whenDefined asks again while the API has no definition of Revocations.
func whenDefined[T any](ctx context.Context, to folding, options metav1.ListOptions, ask func(context.Context, metav1.ListOptions) (T, error)) (T, error) {
	for {
		answer, err := ask(ctx, options)
		if !apierrors.IsNotFound(err) {
			return answer, err
		}
		to.read()
		if !worker.Sleep(ctx, undefinedPause) {
			return answer, ctx.Err()
		}
	}
}

// fold adds the entries of a Revocation. One that cannot be read does not keep the others
// from being refused.
func (f *Follower) fold(object any) {
	loose, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	revoked := &v1alpha1.Revocation{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, revoked)
	if err == nil {
		var entries []revocation.Entry
		entries, err = entriesOf(revoked)
		f.add(actOf(revoked), entries)
	}
	if err != nil {
		klog.ErrorS(err, "Cannot refuse all certificates of a Revocation", "revocation", loose.GetName())
	}
}

// add adds an act that is new to the process. Its revision is the place in the order in which
// this process has learned of acts: the API has no order of them.
func (f *Follower) add(act revocation.Act, entries []revocation.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	act.Revision = f.last
	f.index.Add(act, entries)
}

// actOf returns the act of a Revocation.
func actOf(r *v1alpha1.Revocation) revocation.Act {
	act := revocation.Act{UID: r.UID, Name: r.Name}
	if by := r.Status.RequestedBy; by != nil {
		act.User = by.Username
	}
	return act
}

// unknownEnd is the end of certificates named by serial number: they are on lists until their
// CA ends.
var unknownEnd = time.Unix(math.MaxUint32, 0).UTC()

// entriesOf returns the entries of the certificates that can be revoked without an inventory,
// and why others cannot. The time is the creation time of the object, because its status can be changed.
func entriesOf(r *v1alpha1.Revocation) (entries []revocation.Entry, _ error) {
	reason, err := pki.ParseReason(string(r.Spec.Reason))
	errs := []error{err} // refused without a reason, then
	for i := range r.Spec.Certificates {
		entry, err := entryOf(&r.Spec.Certificates[i], r.CreationTimestamp.Time, reason)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.certificates[%d]: %w", i, err))
			continue
		}
		entries = append(entries, entry)
	}
	if r.Spec.Selection != nil {
		errs = append(errs, errors.New("spec.selection: needs the inventory of certplane serve"))
	}
	return entries, errors.Join(errs...)
}

func entryOf(named *v1alpha1.RevokedCertificate, at time.Time, reason pki.Reason) (entry revocation.Entry, err error) {
	switch {
	case named.PEM != "":
		cert, err := pki.ParseOneCertificate([]byte(named.PEM))
		if err != nil {
			return entry, err
		}
		entry = revocation.EntryOf(cert, at, reason)
		if len(entry.Serial) > revocation.MaxSerial { // no list could name it
			entry.Authority, entry.Serial = revocation.ByFingerprint, entry.Fingerprints[0][:]
		}
		return entry, nil
	case named.Fingerprint != "":
		digest, ok := revocation.ParseDigest(named.Fingerprint)
		if !ok {
			return entry, errors.New("the fingerprint is not hexadecimal")
		}
		return revocation.Entry{Authority: revocation.ByFingerprint, Serial: digest[:], Fingerprints: [2]revocation.Digest{digest}, Time: at.UTC(), Reason: reason}, nil
	}
	entry = revocation.Entry{NotAfter: unknownEnd, Time: at.UTC(), Reason: reason}
	if entry.Serial, err = revocation.ParseSerial(named.SerialNumber); err == nil {
		entry.Authority, err = hex.DecodeString(named.AuthorityKeyID)
	}
	return entry, err
}

// folding is the store of a reflector. It keeps no objects.
type folding struct {
	fold func(object any)
	// gone is called when the only object is deleted, read when all are read.
	gone, read func()
}

var _ cache.ReflectorStore = folding{}

// Add implements cache.ReflectorStore.
func (f folding) Add(object any) error { f.fold(object); return nil }

// Update implements cache.ReflectorStore.
func (f folding) Update(object any) error { f.fold(object); return nil }

// Delete implements cache.ReflectorStore.
func (f folding) Delete(any) error { f.gone(); return nil }

// Replace implements cache.ReflectorStore. Of two Revocations of a certificate, the older one
// counts as the first.
func (f folding) Replace(objects []any, _ string) error {
	slices.SortStableFunc(objects, func(a, b any) int { return created(a).Compare(created(b)) })
	for _, object := range objects {
		f.fold(object)
	}
	if len(objects) == 0 {
		f.gone()
	}
	f.read()
	return nil
}

func created(object any) time.Time {
	if o, ok := object.(metav1.Object); ok {
		return o.GetCreationTimestamp().Time
	}
	return time.Time{}
}

// Resync implements cache.ReflectorStore.
func (folding) Resync() error { return nil }
