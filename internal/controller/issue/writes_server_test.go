package issue_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/issue"
	"github.com/certplane/certplane/internal/pki"
)

// recorder counts the Events about the objects of a namespace by their reason. It is
// safe for concurrent use.
type recorder struct {
	namespace func() string
	mu        sync.Mutex
	reasons   map[string]int
}

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(about, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o, err := meta.Accessor(about); err == nil && o.GetNamespace() == r.namespace() {
		r.reasons[reason]++
	}
}

const statusWrite = "update status of Certificate"

// What a Certificate costs the API, with an issuer that takes its time and with
// one that answers at once: nothing may be added to these lists.
func TestWrites(t *testing.T) {
	inSteps := []string{"apply Secret", "create CertificateRequest", "create Secret", "delete Secret", statusWrite, statusWrite}
	for _, tc := range []struct {
		name   string
		atOnce bool
		want   []string
	}{
		{"later", false, inSteps},
		{"at once", true, inSteps[:len(inSteps)-1]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			writes := &recorded{atOnce: tc.atOnce}
			told := &recorder{reasons: map[string]int{}, namespace: func() string { return writes.world.namespace }}
			w, _ := newClockWorldOn(t, untended.Start(t), func(w *world, cfg *issue.Config) {
				writes.use(t)(w, cfg)
				cfg.Events = func(string) events.EventRecorder { return told }
			})
			for _, name := range []string{"web", "api", "db", "mail"} {
				w.create(t, newCertificate(name))
				if !tc.atOnce {
					w.sign(t, name+"-1")
				}
				w.issued(t, name, 1)
				w.noKeys(t)
				// What is written even later counts for the next one.
				if got := writes.taken(); !slices.Equal(got, tc.want) {
					t.Errorf("%s: %q, want %q", name, got, tc.want)
				}
			}
			told.mu.Lock()
			defer told.mu.Unlock()
			if want := map[string]int{"Issuing": 8}; !maps.Equal(told.reasons, want) {
				t.Errorf("Events: %v, want one at the begin and one at the end of each issuance: %v", told.reasons, want)
			}
		})
	}
}

// Wherever the controller is killed, the next one ends the issuance: with the
// certificate that is in the Secret, or with the stored key, or with another key and
// another request.
func TestKilled(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		for number, killed := 0, true; killed; number++ {
			t.Run(fmt.Sprintf("at once %v, after %d writes", atOnce, number), func(t *testing.T) {
				writes := &recorded{atOnce: atOnce}
				w, clock := newKillableWorld(t, writes)
				stop := startIssuing(t, w, clock, writes.use(t))
				if atOnce {
					w.create(t, newCertificate("first"))
					w.issued(t, "first", 1)
					w.noKeys(t)
				}
				writes.taken()
				died := make(chan struct{})
				die := sync.OnceFunc(func() { close(died) })
				writes.mu.Lock()
				writes.breaks = func(before int) breakage {
					if before < number {
						return works
					}
					die()
					return lost
				}
				writes.mu.Unlock()
				w.create(t, newCertificate("web"))
				killed = w.issuedOr(t, "web", !atOnce, died)
				stop()
				before, isWritten := get[corev1.Secret](t, w, "web-tls")
				// The keys that were stored may arrive in the cache late.
				clock.SetTime(clock.Now().Add(time.Minute))
				defer startIssuing(t, w, clock, (&recorded{atOnce: atOnce}).use(t))()
				w.issuedOr(t, "web", !atOnce, nil)
				secret := w.consistent(t, "web")
				if isWritten && !leaf(t, before).Equal(leaf(t, secret)) {
					t.Error("another certificate was issued, although there was one")
				}
			})
			if t.Failed() || number > 20 {
				return
			}
		}
	}
}

// If the answer to any write is lost, the controller goes on as if it had failed, and
// the Certificate is issued.
func TestLostAnswers(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		for number, broken := 0, true; broken; number++ {
			t.Run(fmt.Sprintf("at once %v, write %d", atOnce, number), func(t *testing.T) {
				writes := &recorded{atOnce: atOnce}
				w, clock := newKillableWorld(t, writes)
				hit := make(chan struct{})
				writes.breaks = func(before int) breakage {
					if before != number {
						return works
					}
					close(hit)
					// A key that does not arrive is given up after a while.
					clock.SetTime(clock.Now().Add(time.Minute))
					return unanswered
				}
				defer startIssuing(t, w, clock, writes.use(t))()
				w.create(t, newCertificate("web"))
				w.issuedOr(t, "web", !atOnce, nil)
				w.consistent(t, "web")
				select {
				case <-hit:
				default:
					broken = false
				}
			})
			if t.Failed() || number > 20 {
				return
			}
		}
	}
}

func newKillableWorld(t *testing.T, writes *recorded) (*world, *clocktesting.FakePassiveClock) {
	w := newWorldOn(t, untended.Start(t))
	writes.world = w
	return w, newClock(w)
}

// issuedOr waits until a Certificate is ready, or until something else has happened,
// which it reports. It answers requests if signs is set.
func (w *world) issuedOr(t *testing.T, name string, signs bool, other <-chan struct{}) (happened bool) {
	t.Helper()
	apitest.Eventually(t, name+" is issued", func() bool {
		select {
		case <-other:
			happened = true
			return true
		default:
		}
		if cr, ok := get[cmv1.CertificateRequest](t, w, name+"-1"); signs && ok && certmanager.ReadyReason(cr) == "" {
			w.signNow(t, cr)
		}
		return w.isReady(t, name)
	})
	return happened
}

// consistent checks that all that belongs to an issued Certificate fits together, and
// that nothing else is left.
func (w *world) consistent(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	w.issued(t, name, 1)
	w.noKeys(t)
	secret, _ := get[corev1.Secret](t, w, name+"-tls")
	key, err := pki.ParsePrivateKey(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || !pki.SameKey(key.Public(), leaf(t, secret).PublicKey) {
		t.Errorf("the key in the Secret is not the certificate's: %v", err)
	}
	cr, ok := get[cmv1.CertificateRequest](t, w, name+"-1")
	if !ok {
		t.Fatal("the request is gone")
	}
	if csr, err := certmanager.ParseRequest(cr.Spec.Request); err != nil || !pki.SameKey(key.Public(), csr.PublicKey) {
		t.Errorf("the request is for another key: %v", err)
	}
	if string(cr.Status.Certificate) != string(secret.Data[corev1.TLSCertKey]) {
		t.Error("the Secret has another certificate than the request")
	}
	return secret
}
