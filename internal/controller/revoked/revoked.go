// Package revoked follows the Revocations of a cluster, from which a webhook learns what
// certificates are revoked.
//
// There is no inventory in a cluster: Revocations themselves are what is true, and each
// process reads them. What it has read once stays revoked until the process ends, even if
// the Revocation or its definition is deleted: a watch must not be able to take back what an
// administrator has decided.
package revoked

import (
	"context"
	"errors"
	"fmt"
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

// retry is how an API that is away is asked again: soon, since what is revoked meanwhile is
// not refused.
var retry = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 5 * time.Second}

// Follower keeps an index of what is revoked. It is safe for concurrent use.
type Follower struct {
	objects dynamic.ResourceInterface
	index   *revocation.Index
	once    sync.Once
	read    chan struct{}
}

// New returns a follower of the Revocations that client reads.
func New(client dynamic.Interface) *Follower {
	return &Follower{
		objects: client.Resource(v1alpha1.GroupVersion.WithResource("revocations")), index: revocation.NewIndex(), read: make(chan struct{}),
	}
}

// Index returns what is revoked.
func (f *Follower) Index() *revocation.Index { return f.index }

// AwaitRead returns when all Revocations were read once. Without their definition, there are
// none.
func (f *Follower) AwaitRead(ctx context.Context) error {
	select {
	case <-f.read:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start follows until ctx ends.
func (f *Follower) Start(ctx context.Context) error {
	from := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return whenDefined(ctx, f, options, f.objects.List)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return whenDefined(ctx, f, options, f.objects.Watch)
		},
	}
	backoff := retry
	cache.NewReflectorWithOptions(from, &unstructured.Unstructured{}, folding{f}, cache.ReflectorOptions{
		Name: "revocations", TypeDescription: v1alpha1.GroupVersion.WithKind("Revocation").String(), Backoff: &backoff,
	}).RunWithContext(ctx)
	return nil
}

// whenDefined asks again while the API has no definition of Revocations.
func whenDefined[T any](ctx context.Context, f *Follower, options metav1.ListOptions, ask func(context.Context, metav1.ListOptions) (T, error)) (T, error) {
	for {
		answer, err := ask(ctx, options)
		if !apierrors.IsNotFound(err) {
			return answer, err
		}
		f.allRead()
		if !worker.Sleep(ctx, undefinedPause) {
			return answer, ctx.Err()
		}
	}
}

func (f *Follower) allRead() { f.once.Do(func() { close(f.read) }) }

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
		f.index.Add(actOf(revoked), entries)
	}
	if err != nil {
		klog.ErrorS(err, "Cannot refuse all certificates of a Revocation", "revocation", loose.GetName())
	}
}

// actOf returns the act of a Revocation. Those of one second are in no order: only which of
// two reasons is shown depends on it.
func actOf(r *v1alpha1.Revocation) revocation.Act {
	act := revocation.Act{UID: r.UID, Name: r.Name, Revision: r.CreationTimestamp.Unix()}
	if by := r.Status.RequestedBy; by != nil {
		act.User = by.Username
	}
	return act
}

// byFingerprint is the authority of entries whose CA is not known.
var byFingerprint = []byte("fingerprint:")

// entriesOf returns the entries of the certificates that a webhook can know, and why it
// cannot know others. The time is that of the object, since its status can be changed.
func entriesOf(r *v1alpha1.Revocation) ([]revocation.Entry, error) {
	reason, err := pki.ParseReason(string(r.Spec.Reason))
	errs := []error{err} // refused without a reason, then
	at := r.CreationTimestamp.Time
	var entries []revocation.Entry
	for i, named := range r.Spec.Certificates {
		switch {
		case named.PEM != "":
			cert, err := pki.ParseOneCertificate([]byte(named.PEM))
			if err != nil {
				errs = append(errs, fmt.Errorf("spec.certificates[%d].pem: %w", i, err))
				continue
			}
			entry := revocation.EntryOf(cert, at, reason)
			if len(entry.Serial) > revocation.MaxSerial { // no list could name it
				entry.Authority, entry.Serial = byFingerprint, entry.Fingerprints[0][:]
			}
			entries = append(entries, entry)
		case named.Fingerprint != "":
			digest, ok := revocation.ParseDigest(named.Fingerprint)
			if !ok {
				errs = append(errs, fmt.Errorf("spec.certificates[%d].fingerprint: not hexadecimal", i))
				continue
			}
			entries = append(entries, revocation.Entry{
				Authority: byFingerprint, Serial: digest[:], Fingerprints: [2]revocation.Digest{digest}, Time: at.UTC(), Reason: reason,
			})
		default:
			errs = append(errs, fmt.Errorf("spec.certificates[%d]: a webhook knows fingerprints only: give the certificate as pem", i))
		}
	}
	if r.Spec.Selection != nil {
		errs = append(errs, errors.New("spec.selection: needs the inventory of certplane serve"))
	}
	return entries, errors.Join(errs...)
}

// folding is the store of a reflector. It keeps no objects.
type folding struct{ *Follower }

var _ cache.ReflectorStore = folding{}

// Add implements cache.ReflectorStore.
func (f folding) Add(object any) error { f.fold(object); return nil }

// Update implements cache.ReflectorStore. A Revocation does not change, and Index.Add takes
// each only once.
func (f folding) Update(object any) error { f.fold(object); return nil }

// Delete implements cache.ReflectorStore.
func (folding) Delete(any) error { return nil }

// Replace implements cache.ReflectorStore.
func (f folding) Replace(objects []any, _ string) error {
	for _, object := range objects {
		f.fold(object)
	}
	f.allRead()
	return nil
}

// Resync implements cache.ReflectorStore.
func (folding) Resync() error { return nil }
