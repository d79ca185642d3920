package ca

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
)

func secretOf(name, version string) (types.NamespacedName, *corev1.Secret) {
	key := types.NamespacedName{Namespace: name, Name: "ca"}
	return key, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "ca", UID: "uid", ResourceVersion: version}}
}

// A CA that is slow to open delays only the callers that wait for it; it is
// opened once for all of them.
func TestOpenedApart(t *testing.T) {
	var calls atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	o := newOpened()
	o.open = func(name string, _ *corev1.Secret) (*pki.Authority, error) {
		if name == "slow/ca" {
			calls.Add(1)
			close(begun) // a second call would panic
			<-goOn
		}
		return &pki.Authority{}, nil
	}
	var waiting sync.WaitGroup
	for range 6 {
		waiting.Go(func() {
			name, secret := secretOf("slow", "1")
			if authority, err := o.get(name, secret); authority == nil || err != nil {
				t.Errorf("the slow one: %v, %v", authority, err)
			}
		})
	}
	<-begun
	name, secret := secretOf("quick", "1")
	if authority, err := o.get(name, secret); authority == nil || err != nil {
		t.Errorf("meanwhile another: %v, %v", authority, err)
	}
	close(goOn)
	waiting.Wait()
	if calls.Load() != 1 {
		t.Errorf("opened %d times", calls.Load())
	}
}

// What cannot be opened is not tried again until the Secret is another.
func TestOpenedFailures(t *testing.T) {
	calls := 0
	o := newOpened()
	o.open = func(_ string, s *corev1.Secret) (*pki.Authority, error) {
		calls++
		if s == nil || s.ResourceVersion == "1" {
			return nil, errors.New("no CA")
		}
		return &pki.Authority{}, nil
	}
	for i, tc := range []struct {
		version string // empty: the Secret does not exist
		uid     types.UID
		calls   int
		fails   bool
	}{
		{"1", "uid", 1, true}, {"1", "uid", 1, true}, {"2", "uid", 2, false}, {"2", "uid", 2, false},
		{"", "", 3, true}, {"", "", 4, true}, {"2", "uid", 5, false}, {"2", "other", 6, false}, {"1", "other", 7, true}, {"1", "other", 7, true},
	} {
		name, secret := secretOf("ns", tc.version)
		secret.UID = tc.uid
		if tc.version == "" {
			secret = nil
		}
		_, err := o.get(name, secret)
		if calls != tc.calls || (err != nil) != tc.fails {
			t.Errorf("step %d: opened %d times, %v; want %d", i, calls, err, tc.calls)
		}
	}
}
