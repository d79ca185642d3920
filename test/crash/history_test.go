package crash

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/store/sealed"
)

// Where requests are stored.
const (
	csrKeys         = "/registry/certificatesigningrequests/"
	podRequestKeys  = "/registry/podcertificaterequests/"
	requestKeys     = "/registry/cert-manager.io/certificaterequests/"
	certificateKeys = "/registry/cert-manager.io/certificates/"
	mapKeys         = "/registry/configmaps/"
	revocationKeys  = "/registry/certplane.dev/revocations/"
	entryKeys       = "/registry/inventory.certplane.dev/revoked/"
	listKeys        = "/registry/inventory.certplane.dev/lists/"
)

// record is the history of one key.
type record struct {
	revisions map[int64]bool
	deleted   bool
	// due reports that it must get a certificate; failed is why it will not get
	// one.
	due    bool
	failed string
	// certificates are the digests of all certificates that it ever had, each with a text
	// that identifies its origin. For a Certificate, they are the digests of its
	// CertificateRequests.
	certificates map[[sha256.Size]byte]string
	// ready is a Certificate's condition.
	ready bool

	// since is when a client got the answer that it will have a certificate.
	since time.Time
	// deleting reports that a client has requested its deletion.
	deleting bool
}

// answered reports whether there is nothing to wait for.
func (r *record) answered(key string) bool {
	return len(r.certificates) > 0 && (r.ready || !strings.HasPrefix(key, certificateKeys))
}

// history is everything that was ever stored. It is safe for concurrent use.
type history struct {
	client *clientv3.Client
	keys   sealed.Keys
	decode runtime.Decoder

	mu      sync.Mutex
	records map[string]*record
	// next is the first revision that has not been read.
	next int64
	// serials has the owner of each serial number of each issuer.
	serials  map[string]string
	twins    []string
	problems []error
	signed   int
	// atOnce is how many certificates were stored with their requests.
	atOnce     int
	lastSigned time.Time
	// longestPause is the longest time between two certificates.
	longestPause time.Duration
	// longestWait is the longest time from an acknowledged write to its
	// certificate.
	longestWait   time.Duration
	longestWaiter string
	// last has the revocation list of each CA; lists is how many were signed.
	last  map[string]*revocation.StoredList
	lists int
}

func kinds() (*runtime.Scheme, error) {
	kinds := runtime.NewScheme()
	return kinds, errors.Join(scheme.AddToScheme(kinds), certmanager.AddToScheme(kinds), v1alpha1.AddToScheme(kinds))
}

// newHistory reads from an etcd that need not run all the time, with the
// encryption keys of its servers.
func newHistory(ctx context.Context, endpoint string, keys sealed.Keys) (*history, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, Logger: zap.NewNop(), Context: ctx,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: time.Second,
		})},
	})
	if err != nil {
		return nil, err
	}
	kinds, err := kinds()
	if err != nil {
		return nil, err
	}
	answer, err := client.Get(ctx, "/registry/")
	if err != nil {
		return nil, err
	}
	return &history{
		client: client, keys: keys, decode: serializer.NewCodecFactory(kinds).UniversalDeserializer(),
		records: map[string]*record{}, serials: map[string]string{}, last: map[string]*revocation.StoredList{}, next: answer.Header.Revision + 1,
	}, nil
}

// follow reads until ctx ends.
func (h *history) follow(ctx context.Context) {
	for ctx.Err() == nil {
		watch := h.client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(h.reached()))
		for answer := range watch {
			if answer.CompactRevision != 0 {
				h.problem(fmt.Errorf("reading the history: %w", answer.Err()))
				return
			}
			for _, event := range answer.Events {
				h.take(ctx, event)
			}
		}
	}
}

func (h *history) reached() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}

func (h *history) problem(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = append(h.problems, err)
}

func (h *history) take(ctx context.Context, event *clientv3.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := string(event.Kv.Key)
	h.next = event.Kv.ModRevision + 1
	switch {
	case strings.HasPrefix(key, csrKeys), strings.HasPrefix(key, podRequestKeys),
		strings.HasPrefix(key, requestKeys), strings.HasPrefix(key, certificateKeys):
	case strings.HasPrefix(key, entryKeys), strings.HasPrefix(key, listKeys):
		if err := h.noteRevoked(key, event.Kv); err != nil {
			h.problems = append(h.problems, fmt.Errorf("%s at %d: %w", key, event.Kv.ModRevision, err))
		}
		return
	case strings.HasPrefix(key, mapKeys), strings.HasPrefix(key, revocationKeys):
		h.of(key).revisions[event.Kv.ModRevision] = true
		return
	default:
		return
	}
	if event.Type == clientv3.EventTypeDelete {
		h.of(key).deleted = true
		return
	}
	h.of(key).revisions[event.Kv.ModRevision] = true
	value, err := h.keys.Open(ctx, key, event.Kv.Value)
	if err == nil {
		err = h.noteValue(key, value)
	}
	if err != nil {
		h.problems = append(h.problems, fmt.Errorf("%s at %d: %w", key, event.Kv.ModRevision, err))
	}
}

// of returns the record of a key. Its caller holds mu.
func (h *history) of(key string) *record {
	r := h.records[key]
	if r == nil {
		r = &record{revisions: map[int64]bool{}, certificates: map[[sha256.Size]byte]string{}}
		h.records[key] = r
	}
	return r
}

func (h *history) noteValue(key string, value []byte) error {
	object, _, err := h.decode.Decode(value, nil, nil)
	if err != nil {
		return err
	}
	return h.note(key, object)
}

// note records the state of an object.
func (h *history) note(key string, object runtime.Object) error {
	r := h.of(key)
	switch o := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		for _, c := range o.Status.Conditions {
			switch c.Type {
			case certificatesv1.CertificateApproved:
				r.due = true
			case certificatesv1.CertificateFailed, certificatesv1.CertificateDenied:
				r.failed = c.Message
			}
		}
		if len(o.Status.Certificate) > 0 && !r.due {
			return errors.New("it has a certificate and no approval")
		}
		return h.issued(key, o.Status.Certificate)
	case *certificatesv1.PodCertificateRequest:
		return h.noteOfPod(key, o.Status.CertificateChain, o.Status.Conditions)
	case *certificatesv1beta1.PodCertificateRequest:
		return h.noteOfPod(key, o.Status.CertificateChain, o.Status.Conditions)
	case *cmv1.CertificateRequest:
		r.due = true
		for _, c := range o.Status.Conditions {
			if c.Type == cmv1.CertificateRequestConditionReady && c.Reason == cmv1.CertificateRequestReasonFailed {
				r.failed = c.Message
			}
		}
		if len(o.Status.Certificate) > 0 && certmanager.RequestCondition(o, cmv1.CertificateRequestConditionApproved) == nil {
			return errors.New("it has a certificate and no approval")
		}
		if owner := o.Annotations[cmv1.CertificateNameKey]; owner != "" {
			key = certificateKeys + o.Namespace + "/" + owner + " " + key
		}
		return h.issued(key, o.Status.Certificate)
	case *cmv1.Certificate:
		r.due = true
		for _, c := range o.Status.Conditions {
			switch {
			case c.Type == cmv1.CertificateConditionReady:
				r.ready = c.Status == cmmeta.ConditionTrue
			case c.Type == cmv1.CertificateConditionIssuing && c.Status == cmmeta.ConditionFalse:
				r.failed = c.Message
			}
		}
		return nil
	}
	return fmt.Errorf("it is stored as a %T", object)
}

func (h *history) noteOfPod(key, chain string, conditions []metav1.Condition) error {
	r := h.of(key)
	r.due = true
	if chain != "" && meta.FindStatusCondition(conditions, certificatesv1beta1.PodCertificateRequestConditionTypeIssued) == nil {
		return errors.New("it has a certificate and does not say so")
	}
	for _, c := range conditions {
		if c.Status == metav1.ConditionTrue && c.Type != certificatesv1beta1.PodCertificateRequestConditionTypeIssued {
			r.failed = c.Message
		}
	}
	return h.issued(key, []byte(chain))
}

// issued counts a certificate for each of the keys, which a space separates.
func (h *history) issued(keys string, pem []byte) error {
	if len(pem) == 0 {
		return nil
	}
	chain, err := pki.ParseCertificates(pem)
	if err != nil {
		return err
	}
	leaf := chain[0]
	digest := sha256.Sum256(leaf.Raw)
	serial := string(leaf.RawIssuer) + leaf.SerialNumber.String()
	whose := fmt.Sprintf("%s %x", keys, digest[:4])
	if other, known := h.serials[serial]; known && other != whose {
		h.twins = append(h.twins, fmt.Sprintf("%s and %s have the serial number %s", other, whose, leaf.SerialNumber))
	} else if !known {
		h.serials[serial] = whose
		h.signed++
		if key, _, _ := strings.Cut(keys, " "); len(h.of(key).revisions) == 1 {
			h.atOnce++
		}
		if !h.lastSigned.IsZero() {
			h.longestPause = max(h.longestPause, time.Since(h.lastSigned))
		}
		h.lastSigned = time.Now()
	}
	for key := range strings.FieldsSeq(keys) {
		r := h.of(key)
		if !r.since.IsZero() && len(r.certificates) == 0 {
			if waited := time.Since(r.since); waited > h.longestWait {
				h.longestWait, h.longestWaiter = waited, key
			}
		}
		r.certificates[digest] = fmt.Sprintf("%s, from %v", whose, leaf.NotBefore)
	}
	return nil
}

// awaits starts the clock for a key after a client got the answer that it will
// have a certificate.
func (h *history) awaits(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(key).since = time.Now()
}

// oldestAnswered returns a key that has its certificate and may be deleted, if
// there are more than keep.
func (h *history) oldestAnswered(mine []string, keep int) (key string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(mine) <= keep || !h.of(mine[0]).answered(mine[0]) {
		return "", false
	}
	h.of(mine[0]).deleting = true
	return mine[0], true
}

// isAnswered reports whether there is nothing to wait for.
func (h *history) isAnswered(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.of(key)
	return r.answered(key) || r.failed != ""
}

// pause is the longest time between two certificates.
func (h *history) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.longestPause
}

// forgetPause restarts the measurement of pauses.
func (h *history) forgetPause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.longestPause, h.lastSigned = 0, time.Now()
}

// count returns the number of certificates so far.
func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.signed
}

// unanswered are the keys that wait for a certificate.
func (h *history) unanswered() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var waiting []string
	for key, r := range h.records {
		if r.due && !r.deleted && r.failed == "" && !r.answered(key) {
			waiting = append(waiting, key)
		}
	}
	return waiting
}

// liveCertificates returns the digests of each Certificate by the name of its
// Secret.
func (h *history) liveCertificates() map[string]map[[sha256.Size]byte]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	live := map[string]map[[sha256.Size]byte]string{}
	for key, r := range h.records {
		if name, ok := strings.CutPrefix(key, certificateKeys+corev1.NamespaceDefault+"/"); ok && !r.deleted && !r.deleting {
			live[name+secretSuffix] = r.certificates
		}
	}
	return live
}

// has reports whether a key was ever stored.
func (h *history) has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records[key] != nil
}

// missing returns the keys with these prefixes that are stored and not shown.
func (h *history) missing(shown map[string]bool, prefixes ...string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var missing []string
	for key, r := range h.records {
		counts := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if counts && !r.deleted && len(r.revisions) > 0 && !shown[key] {
			missing = append(missing, key)
		}
	}
	return missing
}

// verdicts returns which acknowledged writes are lost, and which requests have
// two certificates or have failed.
func (h *history) verdicts(acks []ack) (lost, two, failed []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range acks {
		switch r := h.of(a.key); {
		case a.revision == 0 && !r.deleted:
			lost = append(lost, a.key+": it was deleted, and is there")
		case a.revision != 0 && !r.revisions[a.revision]:
			lost = append(lost, fmt.Sprintf("%s: revision %d was never stored", a.key, a.revision))
		case r.deleted && !r.deleting:
			lost = append(lost, a.key+": nobody asked for its deletion")
		}
	}
	for key, r := range h.records {
		if len(r.certificates) > 1 {
			two = append(two, key+": "+strings.Join(slices.Sorted(maps.Values(r.certificates)), " and "))
		}
		if r.failed != "" {
			failed = append(failed, key+": "+r.failed)
		}
	}
	return lost, two, failed
}
