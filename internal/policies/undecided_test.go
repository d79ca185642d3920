package policies

import (
	"slices"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/request"
)

// A change wakes the requests that have read it in their last decision, also if it
// comes while they are decided about, and no others.
func TestUndecided(t *testing.T) {
	u := newFactIndex()
	var woken []string
	u.woken.Subscribe(func(keys []requestKey) {
		for _, key := range keys {
			woken = append(woken, key.Name)
		}
		slices.Sort(woken)
	})
	key := func(name string) requestKey {
		return requestKey{v1alpha1.CertificateSigningRequests, types.NamespacedName{Name: name}}
	}
	want := func(what string, names ...string) {
		t.Helper()
		if !slices.Equal(woken, names) {
			t.Errorf("%s: woken are %v, want %v", what, woken, names)
		}
		woken = nil
	}
	u.wait(key("a"), waitingRequest{"example.com/a", []fact{namespaceFact("shop"), accessFact}}, u.now())
	u.wait(key("b"), waitingRequest{"example.com/b", []fact{namespaceFact("shop")}}, u.now())
	u.wait(key("c"), waitingRequest{"example.com/c", []fact{nodeFact("shop"), ownerFact("shop", "web")}}, u.now())
	want("nothing has changed")
	u.changed(namespaceFact("shop"))
	want("a namespace", "a", "b")
	u.changed(accessFact)
	want("access", "a")
	u.changed(namespaceFact("bank"))
	want("another namespace")
	u.changed(ownerFact("shop", "web"))
	want("an owner", "c")
	u.set(key("a"), waitingRequest{})
	u.wait(key("b"), waitingRequest{"example.com/b", []fact{nodeFact("n1")}}, u.now())
	u.changed(namespaceFact("shop"))
	u.changed(accessFact)
	want("what is decided, and what reads something else now")
	began := u.now()
	u.changed(nodeFact("n2"))
	u.wait(key("d"), waitingRequest{"example.com/d", []fact{nodeFact("n1")}}, began)
	want("another node, meanwhile")
	u.changed(nodeFact("n1"))
	want("a node", "b", "d")
	u.wait(key("d"), waitingRequest{"example.com/d", []fact{nodeFact("n1")}}, began)
	want("the node, meanwhile", "d")
	began = u.now()
	for range keptChanges {
		u.changed(namespaceFact("other"))
	}
	u.wait(key("d"), waitingRequest{"example.com/d", []fact{nodeFact("n1")}}, began)
	want("as many changes as are kept")
	u.changed(namespaceFact("other"))
	u.wait(key("d"), waitingRequest{"example.com/d", []fact{nodeFact("n1")}}, began)
	want("more changes than are kept", "d")
	u.set(key("c"), waitingRequest{})
	u.keep(func(_ v1alpha1.RequestKind, signer string) bool { return signer == "example.com/d" })
	u.changed(nodeFact("n1"))
	want("what a policy still concerns", "d")
	u.set(key("d"), waitingRequest{})
	if len(u.read)+len(u.by) > 0 {
		t.Errorf("left behind: %v, %v", u.read, u.by)
	}
}

// What a node reports about itself all the time wakes nobody.
func TestSameFact(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "1", Labels: map[string]string{"a": "b"}}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
		change(n)
		return n
	}
	before := node(func(*corev1.Node) {})
	for what, tc := range map[string]struct {
		change func(*corev1.Node)
		same   bool
	}{
		"a heartbeat":     {func(n *corev1.Node) { n.ResourceVersion = "2" }, true},
		"an address":      {func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.2" }, false},
		"a label":         {func(n *corev1.Node) { n.Labels = nil }, false},
		"an annotation":   {func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, false},
		"the provider ID": {func(n *corev1.Node) { n.Spec.ProviderID = "x" }, false},
		"another node":    {func(n *corev1.Node) { n.UID = "2" }, false},
		"the spec":        {func(n *corev1.Node) { n.Generation = 2 }, false},
	} {
		if same := sameFact(before, node(tc.change)); same != tc.same {
			t.Errorf("%s: the same %v", what, same)
		}
	}
	if !sameFact(partial(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind)), partial(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind))) {
		t.Error("equal metadata differs")
	}
}

// What depends on what users may do is decided again after a while, as not all
// authorizers tell of changes; what depends on nothing else than objects is not.
func TestAccessIsAskedAgain(t *testing.T) {
	f := open(t)
	action := func(access bool, step v1alpha1.DecisionOutcome, age, after time.Duration) time.Duration {
		f.time.SetTime(began.Add(age))
		d := &Decision{PolicyDecision: &v1alpha1.PolicyDecision{}}
		d.Input.Request = request.Request{Created: began}
		if access {
			d.requestPolicies = &crp.Decision{}
		}
		return Outcome{Do: step, After: after, Decision: d}.settled(f.Policies).After
	}
	for what, tc := range map[string]struct {
		access     bool
		step       v1alpha1.DecisionOutcome
		age, after time.Duration
		want       time.Duration
	}{
		"a new request":            {true, v1alpha1.OutcomeLeave, 0, 0, time.Second},
		"an older request":         {true, v1alpha1.OutcomeNeedPeople, 5 * time.Minute, 0, 30 * time.Second},
		"an old request":           {true, v1alpha1.OutcomeLeave, time.Hour, 0, time.Minute},
		"sooner for another cause": {true, v1alpha1.OutcomeWait, time.Hour, time.Second, time.Second},
		"later for another cause":  {true, v1alpha1.OutcomeLeave, 0, 10 * time.Second, time.Second},
		"no access":                {false, v1alpha1.OutcomeLeave, time.Hour, 0, 0},
		"an approval":              {true, v1alpha1.OutcomeApprove, time.Hour, 0, 0},
	} {
		if after := action(tc.access, tc.step, tc.age, tc.after); after != tc.want {
			t.Errorf("%s: again after %v, want %v", what, after, tc.want)
		}
	}
}
