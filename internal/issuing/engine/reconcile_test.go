package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/policy/requests"
)

var (
	now  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	name = types.NamespacedName{Namespace: "shop", Name: "web"}
)

// cached is a cache that has some objects.
type cached struct {
	cache.Cache
	objects client.Reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	return c.objects.Get(ctx, key, into, o...)
}

func newCache(t *testing.T, objects ...client.Object) cached {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := cmv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return cached{objects: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
}

// attempt records what is done in an attempt.
type attempt struct {
	stops map[string]outcome.Outcome // by check
	fails map[string]error           // by check
	done  []string
}

func (a *attempt) Checks() []Check {
	return []Check{a.check("first"), a.check("second")}
}

func (a *attempt) check(name string) Check {
	return func(context.Context) (*outcome.Outcome, error) {
		a.done = append(a.done, name)
		if o, ok := a.stops[name]; ok {
			return &o, nil
		}
		return nil, a.fails[name]
	}
}

func (a *attempt) Sign(context.Context) outcome.Outcome {
	a.done = append(a.done, "sign")
	return outcome.Outcome{State: outcome.Issued, Reason: "Signed"}
}

func (a *attempt) Put(_ context.Context, o outcome.Outcome) (reconcile.Result, error) {
	a.done = append(a.done, "put "+o.State.String()+" "+o.Reason)
	return reconcile.Result{RequeueAfter: time.Hour}, nil
}

// An attempt ends with the first check that a request does not pass, and only a
// request that passes all of them is signed.
func TestReconcileRequest(t *testing.T) {
	is := func(kind cmv1.CertificateRequestConditionType) *cmv1.CertificateRequest {
		cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, CreationTimestamp: metav1.NewTime(now)}}
		if kind != "" {
			certmanager.SetRequestCondition(cr, kind, cmmeta.ConditionTrue, "", "", metav1.NewTime(now))
		}
		return cr
	}
	approved, broken := is(cmv1.CertificateRequestConditionApproved), errors.New("the API does not answer")
	tests := []struct {
		reason string
		cr     *cmv1.CertificateRequest // nil if it was deleted
		a      attempt
		late   bool
		want   []string
		again  time.Duration
		err    error
	}{
		{reason: "signed", cr: approved, want: []string{"first", "second", "sign", "note Signed", "put Issued Signed"}, again: time.Hour},
		{reason: "stopped by the first check", cr: approved, a: attempt{stops: map[string]outcome.Outcome{"first": outcome.Wait("Wait", "")}},
			want: []string{"first", "note Wait", "put Pending Wait"}, again: time.Hour},
		{reason: "stopped by the second check", cr: approved, a: attempt{stops: map[string]outcome.Outcome{"second": outcome.Fail("Bad", "")}},
			want: []string{"first", "second", "note Bad", "put Failed Bad"}, again: time.Hour},
		{reason: "answered meanwhile", cr: approved, a: attempt{fails: map[string]error{"second": outcome.ErrSuperseded}}, want: []string{"first", "second"}},
		{reason: "a check fails", cr: approved, a: attempt{fails: map[string]error{"first": broken}}, want: []string{"first"}, err: broken},
		{reason: "denied", cr: is(cmv1.CertificateRequestConditionDenied), want: []string{"put Denied "}, again: time.Hour},
		{reason: "new", cr: is(""), again: requests.ApprovalGrace},
		{reason: "not approved for long", cr: is(""), late: true, want: []string{"Normal Waits for its approval"}},
		{reason: "answered", cr: is(cmv1.CertificateRequestConditionInvalidRequest), want: []string{"forget shop/web"}},
		{reason: "deleted", want: []string{"forget shop/web"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			var objects []client.Object
			if tc.cr != nil {
				objects = append(objects, tc.cr.DeepCopy())
			}
			clk := testingclock.NewFakePassiveClock(now)
			if tc.late {
				clk.SetTime(now.Add(requests.ApprovalGrace))
			}
			recorder := events.NewFakeRecorder(1)
			r := &Requests[*cmv1.CertificateRequest]{
				Cache: newCache(t, objects...), Clock: clk, Recorder: recorder, Due: requests.Due,
				New:   func() *cmv1.CertificateRequest { return &cmv1.CertificateRequest{} },
				Begin: func(*cmv1.CertificateRequest) Attempt { return &tc.a },
				Remind: func(cr *cmv1.CertificateRequest, _ requests.Step) Reminder {
					return Reminder{cr.CreationTimestamp.Time, "Waits", "for its approval"}
				},
				Note:   func(_ *cmv1.CertificateRequest, o outcome.Outcome) { tc.a.done = append(tc.a.done, "note "+o.Reason) },
				Forget: func(request types.NamespacedName) { tc.a.done = append(tc.a.done, "forget "+request.String()) },
			}
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: name})
			select {
			case e := <-recorder.Events:
				tc.a.done = append(tc.a.done, e)
			default:
			}
			if !errors.Is(err, tc.err) || result.RequeueAfter != tc.again || !slices.Equal(tc.a.done, tc.want) {
				t.Errorf("did %q, again after %v, %v; want %q, %v, %v", tc.a.done, result.RequeueAfter, err, tc.want, tc.again, tc.err)
			}
		})
	}
}

// A readiness that is new is told once it is stored. What could not be stored or
// not be found out is tried again.
func TestReconcileIssuer(t *testing.T) {
	broken := errors.New("the CA does not answer")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "issuers"}, name.Name, broken)
	tests := []struct {
		reason          string
		absent          bool
		ready           issuing.Ready
		same            bool
		check, write    error
		told, forgotten bool
		again           time.Duration
		err             error
	}{
		{reason: "ready", ready: issuing.Ready{OK: true}, told: true},
		{reason: "for a while", ready: issuing.Ready{OK: true, Again: now.Add(time.Hour)}, told: true, again: time.Hour},
		{reason: "until it is checked", ready: issuing.Ready{OK: true, Again: now}, told: true, again: 1},
		{reason: "as before", ready: issuing.Ready{OK: true}, same: true},
		{reason: "not ready, to be tried again", ready: issuing.Ready{Retry: broken}, told: true, err: broken},
		{reason: "not known", check: broken, err: broken},
		{reason: "changed meanwhile", write: conflict, again: outcome.ConflictPause},
		{reason: "not stored", write: broken, err: broken},
		{reason: "deleted", absent: true, forgotten: true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			var objects []client.Object
			if !tc.absent {
				objects = append(objects, &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}})
			}
			told, forgotten := false, false
			i := &Issuers[*cmv1.Issuer]{
				Cache: newCache(t, objects...), Clock: testingclock.NewFakePassiveClock(now),
				New:    func() *cmv1.Issuer { return &cmv1.Issuer{} },
				Check:  func(context.Context, *cmv1.Issuer, time.Time) (issuing.Ready, error) { return tc.ready, tc.check },
				Write:  func(context.Context, *cmv1.Issuer, issuing.Ready) (bool, error) { return !tc.same, tc.write },
				Tell:   func(*cmv1.Issuer, issuing.Ready) { told = true },
				Forget: func(types.NamespacedName) { forgotten = true },
			}
			result, err := i.Reconcile(t.Context(), reconcile.Request{NamespacedName: name})
			if !errors.Is(err, tc.err) || result.RequeueAfter != tc.again || told != tc.told || forgotten != tc.forgotten {
				t.Errorf("told %v, forgotten %v, again after %v, %v", told, forgotten, result.RequeueAfter, err)
			}
		})
	}
}
