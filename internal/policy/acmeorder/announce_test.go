package acmeorder_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// Orders count from when they are announced, once, until a minute later.
func TestAnnounce(t *testing.T) {
	a := account()
	for i := range 3 {
		a.Status = *acmeorder.Announce(a, fmt.Sprint("order-", i), i == 1, now.Add(time.Duration(i)*20*time.Second))
	}
	a.Status = *acmeorder.Announce(a, "order-2", false, now.Add(40*time.Second)) // tried again
	cached := []*v1alpha1.AcmeOrder{{ObjectMeta: metav1.ObjectMeta{Name: "order-0"}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}}
	names := func(making string, at time.Time) string {
		var names []string
		for _, o := range acmeorder.WithAnnounced(cached, a, making, at) {
			names = append(names, o.Name+o.Spec.Replaces)
		}
		return strings.Join(names, " ")
	}
	for _, tt := range []struct {
		reason, making string
		after          time.Duration
		want           string
	}{
		{"all are recent", "", 41 * time.Second, "order-0 other order-1announced order-2"},
		{"one is being made", "order-2", 41 * time.Second, "order-0 other order-1announced"},
		{"the caches know it", "", 90 * time.Second, "order-0 other order-2"},
	} {
		if got := names(tt.making, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reason, got, tt.want)
		}
	}
	for _, o := range acmeorder.WithAnnounced(nil, a, "", now) {
		if state := acmeorder.OrderState(o, now); state != rfc8555.StatePending && state != rfc8555.StateReady {
			t.Errorf("an announced order is %s, want it to be open", state)
		}
	}
	if s := acmeorder.Announce(a, "late", false, now.Add(time.Hour)); len(s.NewOrders) != 1 || !s.Ordered {
		t.Errorf("after an hour: %+v", s)
	}
}

// Each challenge has a token of its own, which is the same at each look. Those of earlier
// versions are as they are stored.
func TestTokens(t *testing.T) {
	ids := []rfc8555.Identifier{{Type: "dns", Value: "a.corp.example"}, {Type: "dns", Value: "*.a.corp.example"}, {Type: "dns", Value: "b.corp.example"}}
	o := newOrder(t, endpoint(t), ids...)
	seen := map[string]bool{}
	for i := range o.Status.Authorizations {
		for j := range o.Status.Authorizations[i].Challenges {
			at := acmeorder.Position{Authorization: i, Challenge: j}
			token := acmeorder.Token(o, at)
			if len(token) != 43 || seen[token] || token != acmeorder.Token(o.DeepCopy(), at) {
				t.Errorf("the token of %v is %q", at, token)
			}
			seen[token] = true
		}
	}
	other := o.DeepCopy()
	other.Status.TokenSeed = "another"
	if seen[acmeorder.Token(other, acmeorder.Position{})] {
		t.Error("another order has the same tokens")
	}
	o.Status.TokenSeed, o.Status.Authorizations[0].Challenges[0].Token = "", "stored"
	if got := acmeorder.Token(o, acmeorder.Position{}); got != "stored" {
		t.Errorf("the token of an order of an earlier version is %q", got)
	}
}

// An order that nobody has proven is small: strangers make many.
func TestOrdersAreSmall(t *testing.T) {
	var ids []rfc8555.Identifier
	for i := range 100 {
		ids = append(ids, rfc8555.Identifier{Type: "dns", Value: fmt.Sprintf("host-%02d.corp.example", i)})
	}
	data, err := json.Marshal(newOrder(t, endpoint(t), ids...))
	if err != nil {
		t.Fatal(err)
	}
	if most := 35 << 10; len(data) > most {
		t.Errorf("an order of 100 names takes %d bytes, want at most %d", len(data), most)
	}
}

// New accounts are announced when few are left, for as long as caches may not know them.
func TestAnnounceAccount(t *testing.T) {
	e := &v1alpha1.AcmeEndpointSpec{Limits: v1alpha1.AcmeLimits{MaxAccounts: 1000}}
	if acmeorder.AnnouncesAccounts(e, 499) || !acmeorder.AnnouncesAccounts(e, 500) {
		t.Error("accounts are announced before 500 are left, or not then")
	}
	s := &v1alpha1.AcmeEndpointStatus{}
	acmeorder.AnnounceAccount(s, "old", now.Add(-time.Minute))
	for i := range 600 {
		acmeorder.AnnounceAccount(s, fmt.Sprint(i), now)
	}
	if names := acmeorder.AnnouncedAccounts(s, now); len(names) != 500 || slices.Contains(names, "old") || names[499] != "599" {
		t.Errorf("%d are announced, the last is %s", len(names), names[len(names)-1])
	}
	if names := acmeorder.AnnouncedAccounts(s, now.Add(time.Minute)); len(names) > 0 {
		t.Errorf("after a minute: %v", names)
	}
}
