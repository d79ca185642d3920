package live_test

import (
	"context"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/api/certmanager"
)

func challenge(uid string, changes ...func(*acmev1.Challenge)) *acmev1.Challenge {
	ch := &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: uid, UID: types.UID(uid)},
		Spec:       acmev1.ChallengeSpec{Type: acmev1.ACMEChallengeTypeHTTP01, DNSName: "a.example.com", Token: "token", Key: "token.thumbprint"},
		Status:     acmev1.ChallengeStatus{Processing: true},
	}
	for _, change := range changes {
		change(ch)
	}
	return ch
}

func TestLive(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(*acmev1.Challenge)
		want   bool
	}{
		{"processing", func(*acmev1.Challenge) {}, true},
		{"its ACME server knows it", func(ch *acmev1.Challenge) { ch.Status.State = acmev1.Pending }, true},
		{"its ACME server looks", func(ch *acmev1.Challenge) { ch.Status.State = acmev1.Processing }, true},
		{"waits for the next check, without a slot", func(ch *acmev1.Challenge) { ch.Status.Processing, ch.Status.Presented = false, true }, true},
		{"not begun", func(ch *acmev1.Challenge) { ch.Status.Processing = false }, false},
		{"valid", func(ch *acmev1.Challenge) { ch.Status.State = acmev1.Valid }, false},
		{"invalid", func(ch *acmev1.Challenge) { ch.Status.State = acmev1.Invalid }, false},
		{"expired", func(ch *acmev1.Challenge) { ch.Status.State = acmev1.Expired }, false},
		{"errored", func(ch *acmev1.Challenge) { ch.Status.State = acmev1.Errored }, false},
		{"being deleted", func(ch *acmev1.Challenge) { ch.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		{"another type", func(ch *acmev1.Challenge) { ch.Spec.Type = acmev1.ACMEChallengeTypeDNS01 }, false},
		{"another kind of answer", func(ch *acmev1.Challenge) { ch.Spec.Type = certmanager.TypeTLSALPN01 }, false},
		{"no key", func(ch *acmev1.Challenge) { ch.Spec.Key = "" }, false},
	} {
		index := live.NewIndex()
		index.Set(challenge("1"))
		_, changed := index.Token("token")
		index.Set(challenge("1", tc.change))
		found, _ := index.Token("token")
		if got := len(found) == 1; got != tc.want {
			t.Errorf("%s: live %t", tc.reason, got)
		}
		select {
		case <-changed:
		default:
			t.Errorf("%s: nobody is told", tc.reason)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"A.Example.Com.", "a.example.com"},
		{"[2001:DB8:0::1]", "2001:db8::1"},
		{"2001:db8::1", "2001:db8::1"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"192.0.2.1", "192.0.2.1"},
	} {
		if got := live.Host(tc.text); got != tc.want {
			t.Errorf("%q is %q, want %q", tc.text, got, tc.want)
		}
	}
}

func TestServerNames(t *testing.T) {
	for _, tc := range []struct{ host, want string }{
		{"A.example.com", "a.example.com"},
		{"192.0.2.1", "1.2.0.192.in-addr.arpa"},
		{"2001:db8::1", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"},
	} {
		if got := live.ServerName(tc.host); got != tc.want {
			t.Errorf("%q is asked for by %q, want %q", tc.host, got, tc.want)
		}
	}
}

// The oldest challenge for a name comes first, whatever the order of events.
func TestOldestFirst(t *testing.T) {
	index := live.NewIndex()
	at := func(second int64) func(*acmev1.Challenge) {
		return func(ch *acmev1.Challenge) {
			ch.Spec.Type, ch.CreationTimestamp = certmanager.TypeTLSALPN01, metav1.Unix(second, 0)
		}
	}
	for _, ch := range []*acmev1.Challenge{challenge("b", at(2)), challenge("c", at(1)), challenge("a", at(2))} {
		index.Set(ch)
	}
	var got []string
	for _, c := range index.ServerName("A.example.com") {
		got = append(got, c.Name)
	}
	if diff := cmp.Diff([]string{"c", "a", "b"}, got); diff != "" {
		t.Error(diff)
	}
	index.Delete("c")
	if found := index.ServerName("a.example.com"); len(found) != 2 || found[0].Name != "a" {
		t.Errorf("after the first is gone: %v", found)
	}
}

// informers tell when a handler was added.
type informers struct {
	*informertest.FakeInformers
	added chan struct{}
}

func (i *informers) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	inner, err := i.FakeInformers.GetInformer(ctx, object, options...)
	return &informer{inner, i.added}, err
}

type informer struct {
	cache.Informer
	added chan struct{}
}

func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	defer close(i.added)
	return i.Informer.AddEventHandler(handler)
}

func TestFollow(t *testing.T) {
	kinds := runtime.NewScheme()
	if err := certmanager.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	from := &informers{&informertest.FakeInformers{Scheme: kinds}, make(chan struct{})}
	events, err := from.FakeInformerFor(t.Context(), &acmev1.Challenge{})
	if err != nil {
		t.Fatal(err)
	}
	index := live.NewIndex()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- index.Follow(ctx, from) }()
	<-from.added
	assertCount := func(reason string, want int) {
		t.Helper()
		if found, _ := index.Token("token"); len(found) != want {
			t.Errorf("%s: %d challenges, want %d", reason, len(found), want)
		}
	}
	events.Add(challenge("1"))
	assertCount("a new one", 1)
	events.Update(challenge("1"), challenge("1", func(ch *acmev1.Challenge) { ch.Status.State = acmev1.Valid }))
	assertCount("a finished one", 0)
	events.Add(challenge("2"))
	events.Delete(challenge("2"))
	assertCount("a deleted one", 0)
	events.Add(challenge("3"))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	assertCount("nobody follows them", 0)
}
