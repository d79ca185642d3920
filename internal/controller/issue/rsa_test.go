package issue

import (
	"context"
	"crypto/rsa"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// one is a cache that has one Certificate.
type one struct {
	cache.Cache
	crt *cmv1.Certificate
}

func (o one) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.crt.DeepCopyInto(into.(*cmv1.Certificate))
	return nil
}

// A pass gets the key that was made for its Certificate, once, and has another one made if
// that does not fit.
func TestRSAKeys(t *testing.T) {
	crt := &cmv1.Certificate{Spec: cmv1.CertificateSpec{PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.RSAKeyAlgorithm}}}
	crt.Namespace, crt.Name, crt.UID = "ns", "web", "first"
	k := newRSAKeys(&reconciler{controller: &controller{Config: Config{Clock: clock.RealClock{}}}, objects: one{crt: crt}})
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := k.take(ended, crt); !errors.Is(err, errNoKeyYet) { // it could not ask for the key
		t.Fatalf("after the end of a pass: %v", err)
	}
	for _, tc := range []struct {
		reason string
		change func() // before the key is taken
		takes  bool
	}{
		{"it fits", func() {}, true},
		{"it was taken", func() {}, true},
		{"another Certificate of the name", func() { crt.UID = "second" }, false},
		{"another size", func() { crt.Spec.PrivateKey.Size = 2056 }, false},
		{"it fits again", func() {}, true},
	} {
		asked := make(chan error)
		go func() {
			_, err := k.take(t.Context(), crt)
			asked <- err
		}()
		select {
		case <-k.wanted:
		case err := <-asked:
			t.Fatalf("a key that does not fit was taken: %v", err)
		}
		if err := <-asked; !errors.Is(err, errNoKeyYet) {
			t.Fatalf("before it is made: %v", err)
		}
		if _, err := k.take(t.Context(), crt); !errors.Is(err, errNoKeyYet) {
			t.Fatalf("while it is made: %v", err)
		}
		reconciled := make(chan error)
		go func() {
			_, err := k.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(crt)})
			reconciled <- err
		}()
		<-k.made
		if err := <-reconciled; err != nil {
			t.Fatal(err)
		}
		if tc.change(); !tc.takes {
			continue
		}
		key, err := k.take(t.Context(), crt)
		if _, ok := key.(*rsa.PrivateKey); err != nil || !ok {
			t.Fatalf("%s: the key is a %T, %v", tc.reason, key, err)
		}
	}
}

// A key waits while passes use all cores, but not forever.
func TestIdleCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCores(2)
		first, second := c.use(), c.use()
		defer second()
		start, got := time.Now(), make(chan time.Duration)
		key := func() {
			end := c.useIdle(t.Context())
			got <- time.Since(start)
			end()
		}
		go key()
		if waited := <-got; waited != maxIdleWait {
			t.Errorf("it has waited for %v", waited)
		}
		start = time.Now()
		go key()
		synctest.Wait()
		first()
		if waited := <-got; waited != 0 {
			t.Errorf("with an idle core, it has waited for %v", waited)
		}
	})
}
