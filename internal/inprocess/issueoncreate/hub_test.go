package issueoncreate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
)

type csr = certificatesv1.CertificateSigningRequest

var resource = certificatesv1.Resource("certificatesigningrequests")

// behavior is what a controller or the store does this time.
type behavior int

const (
	works     behavior = iota
	idle               // leaves the request
	refused            // the API refuses the update
	breaks             // panics before its update
	breaks2            // panics after its update
	repeats            // updates again after its update
	behaviors          // their number
)

// controller is an approver or a signer.
type controller struct {
	part    string // the subresource that it updates
	api     client.Client
	does    behavior
	change  func(*csr)
	reports bool // it has seen its update succeed
}

func (c *controller) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	request := &csr{}
	if err := c.api.Get(ctx, key.NamespacedName, request); err != nil {
		return reconcile.Result{}, err
	}
	switch c.does {
	case idle:
		return reconcile.Result{}, nil
	case breaks:
		panic("before the update")
	}
	c.change(request)
	err := c.api.SubResource(c.part).Update(ctx, request)
	c.reports = err == nil
	switch c.does {
	case breaks2:
		panic("after the update")
	case repeats:
		return reconcile.Result{}, c.api.SubResource(c.part).Update(ctx, request)
	}
	return reconcile.Result{}, err
}

// store is the store of one request.
type store struct {
	calls  int
	fails  error // what Store answers
	loses  bool  // nothing is stored
	stored *csr
}

func (s *store) Store(request client.Object) (client.Object, error) {
	s.calls++
	if !s.loses {
		s.stored = request.DeepCopyObject().(*csr)
	}
	return request, s.fails
}

// Whatever the controllers and the store do, a request is stored once, never with a
// certificate without its approval, and controllers report what is stored.
func TestAllOrNothing(t *testing.T) {
	api := fake.NewClientBuilder().Build() // it has no request: what does not reach the pending one fails
	seen := map[string]int{}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func() behavior { return behavior(random.IntN(int(behaviors))) }
		approver := &controller{part: "approval", api: issueoncreate.Client(api, "approver"), does: pick(), change: approve}
		signer := &controller{part: "status", api: issueoncreate.Client(api, "signer"), does: pick(), change: sign}
		kept := &store{}
		switch random.IntN(4) {
		case 0:
			kept.fails, kept.loses = apierrors.NewAlreadyExists(resource, "r"), true
		case 1:
			kept.fails = context.DeadlineExceeded // it is stored, and nobody knows
		}
		err := run(t, approver, signer, kept)
		if kept.calls != 1 || !errors.Is(err, kept.fails) {
			t.Fatalf("seed %d: stored %d times, error %v, want %v", seed, kept.calls, err, kept.fails)
		}
		if kept.stored == nil || kept.fails != nil {
			if approver.reports || signer.reports {
				t.Fatalf("seed %d: a controller reports what may not be stored", seed)
			}
			continue
		}
		approved, issued := len(kept.stored.Status.Conditions) == 1, len(kept.stored.Status.Certificate) > 0
		wantApproved := approver.does == works || approver.does == breaks2 || approver.does == repeats
		wantIssued := wantApproved && (signer.does == works || signer.does == breaks2 || signer.does == repeats)
		if approved != wantApproved || issued != wantIssued || approver.reports != approved || signer.reports != issued {
			t.Fatalf("seed %d: approver %d, signer %d: approved %v (reported %v), issued %v (reported %v)",
				seed, approver.does, signer.does, approved, approver.reports, issued, signer.reports)
		}
		if kept.stored.ResourceVersion != "" {
			t.Fatalf("seed %d: stored with version %s", seed, kept.stored.ResourceVersion)
		}
		seen[outcome(approved, issued)]++
	}
	for _, want := range []string{"plain", "approved", "issued"} {
		if seen[want] < 100 {
			t.Errorf("%d requests ended %s: the test looks at too few", seen[want], want)
		}
	}
}

func outcome(approved, issued bool) string {
	switch {
	case issued:
		return "issued"
	case approved:
		return "approved"
	}
	return "plain"
}

func approve(c *csr) {
	c.Status.Conditions = append(c.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
	})
}

func sign(c *csr) { c.Status.Certificate = []byte("certificate") }

func run(t *testing.T, approver, signer *controller, kept *store) error {
	hub := &issueoncreate.Hub{}
	isApproved := func(o client.Object) bool { return len(o.(*csr).Status.Conditions) > 0 }
	hub.Add(issueoncreate.Step{Resource: resource, Role: issueoncreate.Sign, Takes: isApproved, Reconciler: signer})
	hub.Add(issueoncreate.Step{Resource: resource, Role: issueoncreate.Approve, Takes: func(o client.Object) bool { return !isApproved(o) }, Reconciler: approver})
	request := &csr{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "uid"}}
	if !hub.Takes(resource, request) {
		t.Fatal("no step takes the request")
	}
	by := map[string]*controller{"approver": approver, "signer": signer}
	return hub.Run(t.Context(), issueoncreate.Creation{
		Resource: resource, Request: request, Store: kept.Store,
		Convert: func(from, to client.Object) error {
			target, ok := to.(*csr)
			if !ok {
				return errors.New("not a request")
			}
			from.(*csr).DeepCopyInto(target)
			return nil
		},
		Update: func(_ context.Context, w issueoncreate.Writer, next, _ client.Object) (client.Object, error) {
			if who := by[w.Account]; who.does == refused || w.Subresource != who.part {
				return nil, apierrors.NewForbidden(resource, "r", nil)
			}
			return next.DeepCopyObject().(client.Object), nil
		},
	})
}

// Steps that are removed do not run, and a Hub that is nil has none.
func TestRemoved(t *testing.T) {
	var none *issueoncreate.Hub
	none.Add(issueoncreate.Step{})()
	hub := &issueoncreate.Hub{}
	remove := hub.Add(issueoncreate.Step{Resource: resource, Takes: func(client.Object) bool { return true }})
	if !hub.Takes(resource, &csr{}) || hub.Takes(certificatesv1.Resource("others"), &csr{}) {
		t.Error("a step takes its own resource, and no other")
	}
	remove()
	if hub.Takes(resource, &csr{}) || none.Takes(resource, &csr{}) {
		t.Error("a step that was removed takes requests")
	}
}

// What is noted about a request that is being created can be read until it is stored.
func TestNotes(t *testing.T) {
	type key struct{}
	issueoncreate.Note(t.Context(), key{}, 1)
	if got := issueoncreate.Noted(t.Context(), key{}); got != nil {
		t.Errorf("of no request, %v is noted", got)
	}
	hub, stored := &issueoncreate.Hub{}, context.Context(nil)
	hub.Add(issueoncreate.Step{Resource: resource, Takes: func(client.Object) bool { return true }, Reconciler: reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		if got := issueoncreate.Noted(ctx, key{}); got != nil {
			t.Errorf("of another request, %v is noted", got)
		}
		issueoncreate.Note(ctx, key{}, 1)
		issueoncreate.Note(ctx, key{}, 2)
		if got := issueoncreate.Noted(ctx, key{}); got != 2 {
			t.Errorf("%v is noted, want 2", got)
		}
		stored = ctx
		return reconcile.Result{}, nil
	})})
	for range 2 {
		kept := &store{}
		if err := hub.Run(t.Context(), issueoncreate.Creation{Resource: resource, Request: &csr{}, Store: kept.Store}); err != nil {
			t.Fatal(err)
		}
		if got := issueoncreate.Noted(stored, key{}); got != nil {
			t.Errorf("of a stored request, %v is noted", got)
		}
	}
}
