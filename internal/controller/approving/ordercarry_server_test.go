package approving_test

import (
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// carrying lets approvals count for a day.
func carrying(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
	e.Spec.Approval.CarryOver = metav1.Duration{Duration: 24 * time.Hour}
}

// reviewer returns somebody who may approve for the signer of a world.
func reviewer(w *acmetest.World, groups ...string) (name string, as kubernetes.Interface) {
	w.Helper()
	name = "carol-" + w.Namespace
	w.Server.Grant(w, name, apitest.Allow("get list update patch", "certificatesigningrequests certificatesigningrequests/approval"), apitest.Allow("approve", "signers", w.SignerName))
	return name, apitest.Client(w, w.Server.Login(w, name, groups...))
}

// sealedIn returns the sealed approval in a request; empty if there is none.
func sealedIn(csr *certificatesv1.CertificateSigningRequest) string {
	for _, c := range policies.ConditionsOf(csr) {
		if sealed := quorum.SealedIn(c); sealed != "" {
			return sealed
		}
	}
	return ""
}

// The approval of an order by a person counts for the next ones of the account.
func TestCarriedOver(t *testing.T) {
	w := acmetest.New(t, shared.Start(t), carrying)
	name, as := reviewer(w)
	first := w.Order(w.Preauthorized("a"), w.Preauthorized("b"))
	w.Finalize(first)
	first = w.Until(first, "has a request", hasRequest)
	apitest.Decide(t, as, requestOf(w, first), certificatesv1.CertificateApproved)
	first = w.Ended(first)
	if a := first.Status.Approval; first.Status.State != v1alpha1.AcmeOrderValid || a == nil || a.By != name || a.Sealed == "" {
		t.Fatalf("the approved order is %+v", first.Status)
	}
	for i := range 5 {
		later := w.Order(w.Preauthorized("b"))
		w.Finalize(later)
		later = w.Ended(later)
		if a := later.Status.Approval; later.Status.State != v1alpha1.AcmeOrderValid || a == nil || a.CarriedFrom != first.Name || a.By != "" {
			t.Fatalf("the order %d is %+v", i, later.Status)
		}
		csr := requestOf(w, later)
		if !isApprovedBy(t, w, csr.Name, acmeorder.ReasonCarriedOver) || !strings.Contains(csr.Status.Conditions[0].Message, name+" approved the order "+w.Namespace+"/"+first.Name) {
			t.Errorf("%+v", csr.Status.Conditions)
		}
	}
	sixth, other := w.Order(w.Preauthorized("a")), w.OrderOf(w.NewAccount(), w.Preauthorized("a"))
	var waiting []*certificatesv1.CertificateSigningRequest
	for _, o := range []*v1alpha1.AcmeOrder{sixth, other} {
		w.Finalize(o)
		waiting = append(waiting, requestOf(w, w.Until(o, "has a request", hasRequest)))
	}
	leftAlone(t, w, waiting...)
	// The next approval has the earlier order of the same account denied, and no other.
	last := w.Order(w.Preauthorized("a"), w.Preauthorized("c"))
	backdate(w, sixth)
	w.Finalize(last)
	last = w.Until(last, "has a request", hasRequest)
	apitest.Decide(t, as, requestOf(w, last), certificatesv1.CertificateApproved)
	if last = w.Ended(last); last.Status.State != v1alpha1.AcmeOrderValid {
		t.Errorf("the last order is %+v", last.Status)
	}
	if sixth = w.Ended(sixth); sixth.Status.Error == nil || !strings.Contains(sixth.Status.Error.Detail, acmeorder.ReasonSuperseded) {
		t.Errorf("the earlier order is %+v", sixth.Status)
	}
	undecided(t, w, waiting[1])
}

// backdate has an order be finalized a minute earlier.
func backdate(w *acmetest.World, o *v1alpha1.AcmeOrder) {
	w.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := w.Objects.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		o.Status.Finalized = &metav1.Time{Time: o.Status.Finalized.Add(-time.Minute)}
		return w.Objects.Status().Update(w.Context(), o)
	})
	if err != nil {
		w.Fatal(err)
	}
}

// A denial ends what an earlier approval could count for.
func TestDeniedSince(t *testing.T) {
	w := acmetest.New(t, shared.Start(t), carrying)
	_, as := reviewer(w)
	decided := func(name string, how certificatesv1.RequestConditionType) *v1alpha1.AcmeOrder {
		o := w.Order(w.Preauthorized(name))
		w.Finalize(o)
		apitest.Decide(t, as, requestOf(w, w.Until(o, "has a request", hasRequest)), how)
		return w.Ended(o)
	}
	first := decided("a", certificatesv1.CertificateApproved)
	decided("b", certificatesv1.CertificateDenied)
	if first = w.Until(first, "says that another was denied", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Approval.Denied != nil }); len(first.Status.Approval.CarriedTo) > 0 {
		t.Errorf("%+v", first.Status.Approval)
	}
	later := w.Order(w.Preauthorized("a"))
	w.Finalize(later)
	leftAlone(t, w, requestOf(w, w.Until(later, "has a request", hasRequest)))
}

// earlier is an order that a person has approved, in a server where the tests write
// what the ACME server and its controllers would.
type earlier struct {
	*acmetest.World
	reviewer string
	order    *v1alpha1.AcmeOrder
	request  *certificatesv1.CertificateSigningRequest
	web      kubernetes.Interface // the ServiceAccount
}

func approvedEarlier(t *testing.T, as func(*acmetest.World) (string, kubernetes.Interface), options ...acmetest.Option) *earlier {
	t.Helper()
	w := acmetest.New(t, alone.Start(t), options...)
	name, carol := as(w)
	who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
	e := &earlier{World: w, reviewer: name, order: named(w), web: apitest.Client(t, w.Server.As(t, who.Username, who.Groups...))}
	e.request = apitest.Decide(t, carol, apitest.Create(t, e.web, made(t, w, e.order)), certificatesv1.CertificateApproved)
	e.order.Status = *acmeorder.RecordRequest(e.order, e.request.UID, time.Now())
	e.order.Status = *acmeorder.RecordApproval(e.order, v1alpha1.AcmeOrderApproval{By: name, Time: metav1.Now(), Sealed: sealedIn(e.request)}, time.Now())
	w.UpdateStatus(e.order)
	return e
}

// later returns a later order that says that the approval is to count for it.
func (e *earlier) later(names ...string) *v1alpha1.AcmeOrder {
	e.Helper()
	o := e.Order(names...)
	e.Finalize(o)
	o.Status.CarryFrom = e.order.Name
	e.UpdateStatus(o)
	e.order.Status.Approval.CarriedTo = append(e.order.Status.Approval.CarriedTo, o.Name)
	e.UpdateStatus(e.order)
	return o
}

// Nobody can forge an approval, also not who may write orders: only what is sealed
// counts, for what was approved, while the person may approve. The answer to the
// creation of the request says whether it is approved.
func TestOnlySealedApprovalsCount(t *testing.T) {
	for _, tc := range []struct {
		reason   string
		change   func(*testing.T, *earlier)
		names    []string
		approved bool
	}{
		{reason: "nothing has changed", approved: true},
		{reason: "another name", names: []string{"b"}},
		{reason: "another name too", names: []string{"a", "b"}},
		{reason: "the approval is not sealed", change: func(_ *testing.T, e *earlier) { e.order.Status.Approval.Sealed = "" }},
		{reason: "the seal is broken", change: func(_ *testing.T, e *earlier) {
			e.order.Status.Approval.Sealed = e.order.Status.Approval.Sealed[:len(e.order.Status.Approval.Sealed)-4] + "AAAA"
		}},
		{reason: "the seal is of another order", change: func(t *testing.T, e *earlier) {
			o := e.order.DeepCopy()
			e.order = named(e.World)
			e.order.Status.Approval = o.Status.Approval
		}},
		{reason: "a denial since", change: func(_ *testing.T, e *earlier) { e.order.Status.Approval.Denied = new(metav1.Now()) }},
		{reason: "the account has another key", change: func(_ *testing.T, e *earlier) {
			e.Account.Status.Key = "another"
			e.UpdateStatus(e.Account)
		}},
		{reason: "carry-over is off", change: func(_ *testing.T, e *earlier) {
			e.Change(e.Endpoint, func() { e.Endpoint.Spec.Approval.CarryOver = metav1.Duration{} })
		}},
		{reason: "the lifetime is longer", change: func(_ *testing.T, e *earlier) {
			longer := metav1.Duration{Duration: 13 * time.Hour}
			e.Change(e.Endpoint, func() {
				e.Endpoint.Spec.Profiles[0].Lifetime = v1alpha1.AcmeLifetime{Default: longer, Maximum: longer}
			})
		}},
		{reason: "the person may not approve anymore", change: func(_ *testing.T, e *earlier) {
			e.Disallow(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "granted:" + e.reviewer}}, request.User(e.reviewer),
				authorizationv1.ResourceAttributes{Verb: "approve", Group: certificatesv1.GroupName, Resource: "signers", Name: e.SignerName})
		}},
		{reason: "a policy wants people", change: func(t *testing.T, e *earlier) { wantPeople(t, e.World) }},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			e := approvedEarlier(t, func(w *acmetest.World) (string, kubernetes.Interface) { return reviewer(w) }, carrying)
			if tc.change != nil {
				tc.change(t, e)
			}
			names := []string{e.Preauthorized("a")}
			if tc.names != nil {
				names = nil
				for _, name := range tc.names {
					names = append(names, e.Preauthorized(name))
				}
			}
			hours := e.Endpoint.Spec.Profiles[0].Lifetime.Default.Duration
			csr, err := acmeorder.SigningRequest(e.later(names...), e.Account, &e.Endpoint.Spec.Profiles[0], hours)
			if err != nil {
				t.Fatal(err)
			}
			answer := apitest.Create(t, e.web, csr)
			if approved := len(answer.Status.Conditions) > 0 && answer.Status.Conditions[0].Reason == acmeorder.ReasonCarriedOver; approved != tc.approved || !approved && isDecided(answer) {
				t.Errorf("the answer has the conditions %+v", answer.Status.Conditions)
			}
		})
	}
}

func isDecided(csr *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied {
			return true
		}
	}
	return false
}

// wantPeople stores a policy that wants two people for the signer of a world, and waits
// until it is in force.
func wantPeople(t *testing.T, w *acmetest.World) {
	t.Helper()
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow, Match: v1alpha1.PolicyMatch{Signers: []string{w.SignerName}, Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}},
		Certificate: &v1alpha1.CertificateConditions{
			Names:  &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{w.Namespace + ".example"}}},
			Usages: &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment", "server auth"}},
		},
		Approval: &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}},
	}}
	w.Create(p)
	apitest.Eventually(t, "the policy is in force", func() bool {
		return w.Objects.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
}

// Only the approvals of people who act in their own name are recorded, and only of
// requests of orders.
func TestWhoseApprovalsAreSealed(t *testing.T) {
	robot := func(w *acmetest.World) (string, kubernetes.Interface) {
		who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
		w.AllowEverywhere("approve", apitest.Allow("get update", "certificatesigningrequests certificatesigningrequests/approval"), apitest.Allow("approve", "signers", w.SignerName))
		return who.Username, apitest.Client(t, w.Server.As(t, who.Username, who.Groups...))
	}
	impersonated := func(w *acmetest.World) (string, kubernetes.Interface) {
		name, _ := reviewer(w)
		return name, apitest.Client(t, w.Server.As(t, name))
	}
	person := func(w *acmetest.World) (string, kubernetes.Interface) { return reviewer(w) }
	off := func(*v1alpha1.AcmeEndpoint, *v1alpha1.AcmeExternalKey) {}
	for _, tc := range []struct {
		reason string
		as     func(*acmetest.World) (string, kubernetes.Interface)
		option acmetest.Option
		want   bool
	}{{"a person", person, carrying, true}, {"a ServiceAccount", robot, carrying, false}, {"somebody else", impersonated, carrying, false}, {"off", person, off, false}} {
		e := approvedEarlier(t, tc.as, tc.option)
		if !isDecided(e.request) || (sealedIn(e.request) != "") != tc.want {
			t.Errorf("%s: %+v", tc.reason, e.request.Status.Conditions)
		}
	}
	w := acmetest.New(t, alone.Start(t), carrying)
	_, carol := reviewer(w)
	direct := apitest.NewCSR(t, "acme-"+acmetest.ID(), w.SignerName, pki.Subject{DNSNames: []string{w.Preauthorized("a")}}, apitest.NewKey(t))
	if csr := apitest.Decide(t, carol, apitest.Create(t, apitest.Client(t, w.Server.Admin(t)), direct), certificatesv1.CertificateApproved); sealedIn(csr) != "" {
		t.Errorf("a request of no order: %+v", csr.Status.Conditions)
	}
}
