package order_test

import (
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/order"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// situation is an Order for a.example.com and b.example.com that was ordered, and
// whose authorizations are known.
func situation() order.Situation {
	authorization := func(name string) acmev1.ACMEAuthorization {
		return acmev1.ACMEAuthorization{
			URL: "https://ca.example/authz/" + name, Identifier: name + ".example.com", Wildcard: new(false), InitialState: acmev1.Pending, Challenges: offers("http-01", "dns-01"),
		}
	}
	return order.Situation{
		Order: &acmev1.Order{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
			Spec:       acmev1.OrderSpec{IssuerRef: le, DNSNames: []string{"a.example.com", "b.example.com"}},
			Status: acmev1.OrderStatus{
				URL: "https://ca.example/order/1", FinalizeURL: "https://ca.example/finalize/1", State: acmev1.Pending,
				Authorizations: []acmev1.ACMEAuthorization{authorization("a"), authorization("b")},
			},
		},
		Issuer: &acmev1.ACMEIssuer{Solvers: []acmev1.ACMEChallengeSolver{solver("http")}},
		Memory: order.Memory{Order: &rfc8555.Order{Status: "pending", Expires: now.Add(48 * time.Hour)}},
		Now:    now,
	}
}

// challenge adds the Challenge of an authorization, in a state.
func challenge(s *order.Situation, i int, state acmev1.State) *acmev1.Challenge {
	needs, err := order.Require(s.Order, s.Issuer, s.Order.Status.Authorizations[i])
	if err != nil {
		panic(err)
	}
	needs.Challenge.Status.State = state
	s.Challenges = append(s.Challenges, needs.Challenge)
	return needs.Challenge
}

func both(a, b acmev1.State) func(*order.Situation) {
	return func(s *order.Situation) { challenge(s, 0, a); challenge(s, 1, b) }
}

func said(status string) func(*order.Situation) {
	return func(s *order.Situation) { s.Memory.Order.Status = status }
}

func TestNext(t *testing.T) {
	fresh := func(s *order.Situation) { s.Order.Status = acmev1.OrderStatus{}; s.Memory = order.Memory{} }
	tests := []struct {
		reason string
		change []func(*order.Situation)
		want   order.Action
		class  order.Class
		text   string // in the reason
		again  time.Time
		more   func(order.Step) bool
	}{
		{reason: "failed", change: []func(*order.Situation){both(acmev1.Pending, acmev1.Invalid), func(s *order.Situation) { s.Order.Status.State = acmev1.Errored }},
			want: order.None, more: func(s order.Step) bool { return len(s.Delete) == 1 && s.Delete[0].Spec.DNSName == "a.example.com" }},
		{reason: "has its certificate", change: []func(*order.Situation){both(acmev1.Valid, acmev1.Valid), func(s *order.Situation) {
			s.Order.Status.State, s.Order.Status.Certificate = acmev1.Valid, []byte("x")
		}}, want: order.None, more: func(s order.Step) bool { return len(s.Delete) == 2 }},
		{reason: "new", change: []func(*order.Situation){fresh}, want: order.Create},
		{reason: "new, and the CA limits orders", change: []func(*order.Situation){fresh, func(s *order.Situation) {
			s.Memory = order.Memory{NotBefore: now.Add(time.Hour), Class: order.WaitsLimit, Reason: "limit"}
		}}, want: order.Await, class: order.WaitsLimit, text: "limit", again: now.Add(time.Hour)},
		{reason: "new, and there is no issuer", change: []func(*order.Situation){fresh, func(s *order.Situation) { s.Issuer, s.Obstacle = nil, "no issuer" }},
			want: order.Await, class: order.WaitsIssuer, text: "no issuer"},
		{reason: "no finalize URL", change: []func(*order.Situation){func(s *order.Situation) { s.Order.Status.FinalizeURL = "" }}, want: order.Read},
		{reason: "an authorization is not known", change: []func(*order.Situation){func(s *order.Situation) { s.Order.Status.Authorizations[1].Identifier = "" }}, want: order.ReadAuthorizations},
		{reason: "too many authorizations", change: []func(*order.Situation){func(s *order.Situation) { s.Order.Status.Authorizations = make([]acmev1.ACMEAuthorization, 501) }}, want: order.End, text: "more authorizations"},
		{reason: "after a restart", change: []func(*order.Situation){func(s *order.Situation) { s.Memory = order.Memory{} }}, want: order.Read},
		{reason: "ready after a restart", change: []func(*order.Situation){func(s *order.Situation) { s.Memory, s.Order.Status.State = order.Memory{}, acmev1.Ready }}, want: order.Read},
		{reason: "valid after a restart", change: []func(*order.Situation){func(s *order.Situation) { s.Memory, s.Order.Status.State = order.Memory{}, acmev1.Valid }}, want: order.Read},
		{reason: "no Challenges", want: order.Plan, more: func(s order.Step) bool { return len(s.Create) == 2 && len(s.Delete) == 0 }},
		{reason: "one is missing", change: []func(*order.Situation){func(s *order.Situation) { challenge(s, 0, "") }}, want: order.Plan,
			more: func(s order.Step) bool { return len(s.Create) == 1 && s.Create[0].Domain == "b.example.com" }},
		{reason: "one is valid from the start", change: []func(*order.Situation){func(s *order.Situation) { s.Order.Status.Authorizations[0].InitialState = acmev1.Valid }}, want: order.Plan,
			more: func(s order.Step) bool { return len(s.Create) == 1 && s.Create[0].Domain == "b.example.com" }},
		{reason: "one is invalid from the start", change: []func(*order.Situation){func(s *order.Situation) { s.Order.Status.Authorizations[0].InitialState = acmev1.Invalid }}, want: order.End,
			text: "authorization for a.example.com is invalid", more: func(s order.Step) bool {
				return s.State == acmev1.Invalid && cmp.Equal(s.Deactivate, []string{"https://ca.example/authz/b"})
			}},
		{reason: "one was valid and is not any more", change: []func(*order.Situation){both("", acmev1.Valid), func(s *order.Situation) {
			s.Order.Status.Authorizations[0].InitialState = acmev1.Valid
			s.Memory.Authorizations = map[string]rfc8555.Authorization{"https://ca.example/authz/a": {
				Identifier: rfc8555.Identifier{Value: "a.example.com"}, Status: "pending", Challenges: []rfc8555.Challenge{{Type: "http-01", URL: "https://ca.example/new"}},
			}}
			s.Challenges = s.Challenges[1:]
		}}, want: order.Plan, more: func(s order.Step) bool {
			return len(s.Create) == 1 && s.Create[0].Challenge.Spec.URL == "https://ca.example/new"
		}},
		{reason: "all are valid from the start", change: []func(*order.Situation){func(s *order.Situation) {
			s.Order.Status.Authorizations[0].InitialState, s.Order.Status.Authorizations[1].InitialState = acmev1.Valid, acmev1.Valid
		}}, want: order.Read, class: order.WaitsCA},
		{reason: "some are open", change: []func(*order.Situation){both(acmev1.Pending, acmev1.Valid)}, want: order.Await, class: order.WaitsChallenges,
			text: "validation of a.example.com by HTTP-01", again: now.Add(24*time.Hour - time.Minute)},
		{reason: "some are open, and the order expires soon", change: []func(*order.Situation){both("", ""), func(s *order.Situation) { s.Memory.Order.Expires = now.Add(time.Hour) }},
			want: order.Await, class: order.WaitsChallenges, text: "and for 1 others", again: now.Add(time.Hour + time.Second)},
		{reason: "all are valid", change: []func(*order.Situation){both(acmev1.Valid, acmev1.Valid)}, want: order.Read, class: order.WaitsCA, text: "All challenges are valid"},
		{reason: "all are valid, and it was asked just now", change: []func(*order.Situation){both(acmev1.Valid, acmev1.Valid), func(s *order.Situation) {
			s.Memory.NotBefore, s.Memory.Class = now.Add(2*time.Second), order.WaitsCA
		}}, want: order.Await, class: order.WaitsCA, text: "All challenges are valid", again: now.Add(2 * time.Second)},
		{reason: "one has failed", change: []func(*order.Situation){both("", acmev1.Invalid), func(s *order.Situation) { s.Challenges[1].Status.Reason = "connection refused" }}, want: order.End,
			text: "The validation of b.example.com by HTTP-01 has failed: connection refused", more: func(s order.Step) bool {
				return s.State == acmev1.Invalid && len(s.Delete) == 1 && cmp.Equal(s.Deactivate, []string{"https://ca.example/authz/a"})
			}},
		{reason: "one has errored", change: []func(*order.Situation){both("", acmev1.Errored)}, want: order.End, text: "the challenge is errored"},
		{reason: "one of another solver has errored", change: []func(*order.Situation){both(acmev1.Errored, ""), func(s *order.Situation) { s.Challenges[0].Name = "old" }}, want: order.Plan,
			more: func(s order.Step) bool { return len(s.Create) == 1 && len(s.Delete) == 1 && s.Delete[0].Name == "old" }},
		{reason: "one of another solver was refused by the CA", change: []func(*order.Situation){both(acmev1.Invalid, ""), func(s *order.Situation) { s.Challenges[0].Name = "old" }}, want: order.End},
		{reason: "one of another solver is open", change: []func(*order.Situation){both("", ""), func(s *order.Situation) { s.Challenges[0].Name = "old" }}, want: order.Plan,
			more: func(s order.Step) bool { return len(s.Create) == 1 && len(s.Delete) == 1 }},
		{reason: "one of another solver is being validated", change: []func(*order.Situation){both(acmev1.Processing, ""), func(s *order.Situation) { s.Challenges[0].Name = "old" }},
			want: order.Await, class: order.WaitsChallenges},
		{reason: "one that is not needed", change: []func(*order.Situation){both("", ""), func(s *order.Situation) {
			challenge(s, 0, "").Spec.AuthorizationURL = "https://ca.example/authz/other"
		}}, want: order.Plan, more: func(s order.Step) bool { return len(s.Create) == 0 && len(s.Delete) == 1 }},
		{reason: "one is being deleted", change: []func(*order.Situation){both("", ""), func(s *order.Situation) { s.Challenges[0].DeletionTimestamp = new(metav1.NewTime(now)) }}, want: order.Plan,
			more: func(s order.Step) bool { return len(s.Create) == 1 && len(s.Delete) == 0 }},
		{reason: "no solver", change: []func(*order.Situation){func(s *order.Situation) { s.Issuer = &acmev1.ACMEIssuer{} }}, want: order.Await, class: order.WaitsSolver,
			text: "There is no solver for a.example.com: no configured challenge solvers can be used for this challenge", more: func(s order.Step) bool { return s.Missing != nil }},
		{reason: "no solver for one", change: []func(*order.Situation){func(s *order.Situation) { s.Issuer.Solvers[0] = solver("http n:b.example.com") }}, want: order.Plan,
			more: func(s order.Step) bool {
				return s.Missing != nil && s.Missing.Domain == "a.example.com" && len(s.Create) == 1
			}},
		{reason: "no solver any more, but all are valid", change: []func(*order.Situation){both(acmev1.Valid, acmev1.Valid), func(s *order.Situation) { s.Issuer = &acmev1.ACMEIssuer{} }}, want: order.Read},
		{reason: "ready", change: []func(*order.Situation){said("ready"), func(s *order.Situation) { s.Issuer = &acmev1.ACMEIssuer{} }}, want: order.Finalize},
		{reason: "refused although ready", change: []func(*order.Situation){said("ready"), func(s *order.Situation) { s.Memory.Recheck = true }}, want: order.Recheck},
		{reason: "ready, but an authorization has expired", change: []func(*order.Situation){both(acmev1.Valid, acmev1.Valid), said("ready"), func(s *order.Situation) {
			s.Memory.Authorizations = map[string]rfc8555.Authorization{"https://ca.example/authz/a": {Identifier: rfc8555.Identifier{Value: "a.example.com"}, Status: "expired"}}
		}}, want: order.End, text: "the authorization for a.example.com is expired", more: func(s order.Step) bool { return s.State == acmev1.Invalid }},
		{reason: "ready, and all authorizations are still valid", change: []func(*order.Situation){said("ready"), func(s *order.Situation) {
			s.Memory.Authorizations = map[string]rfc8555.Authorization{"https://ca.example/authz/a": {Identifier: rfc8555.Identifier{Value: "a.example.com"}, Status: "valid"}}
		}}, want: order.Finalize},
		{reason: "processing", change: []func(*order.Situation){said("processing")}, want: order.Read, class: order.WaitsCA, text: "Waiting for the CA to issue"},
		{reason: "valid", change: []func(*order.Situation){said("valid"), func(s *order.Situation) { s.Memory.Order.Certificate = "https://ca.example/cert" }}, want: order.Download},
		{reason: "valid, without a certificate", change: []func(*order.Situation){said("valid")}, want: order.Read, class: order.WaitsCA, text: "does not say where"},
		{reason: "valid, and expired", change: []func(*order.Situation){said("valid"), func(s *order.Situation) { s.Memory.Order.Certificate, s.Now = "x", now.Add(72*time.Hour) }}, want: order.Download},
		{reason: "invalid", change: []func(*order.Situation){said("invalid")}, want: order.Explain},
		{reason: "deactivated", change: []func(*order.Situation){said("deactivated")}, want: order.Explain},
		{reason: "expired", change: []func(*order.Situation){func(s *order.Situation) { s.Now = now.Add(49 * time.Hour) }}, want: order.End,
			more: func(s order.Step) bool { return s.State == acmev1.Expired && len(s.Deactivate) == 0 }},
		{reason: "unchanged for a day", change: []func(*order.Situation){both("", ""), func(s *order.Situation) { s.Now = now.Add(24 * time.Hour) }}, want: order.End,
			text: "Last obstacle: Waiting for the validation of a.example.com", more: func(s order.Step) bool { return s.State == acmev1.Errored }},
		{reason: "changed within the day", change: []func(*order.Situation){both("", ""), func(s *order.Situation) {
			s.Order.ManagedFields = []metav1.ManagedFieldsEntry{{Subresource: "status", Time: new(metav1.NewTime(now.Add(time.Hour)))}, {Time: new(metav1.NewTime(now.Add(9 * time.Hour)))}}
			s.Now = now.Add(24 * time.Hour)
		}}, want: order.Await, class: order.WaitsChallenges, again: now.Add(25 * time.Hour)},
		{reason: "a limit that is longer than a day", change: []func(*order.Situation){fresh, func(s *order.Situation) {
			s.Memory = order.Memory{NotBefore: now.Add(72 * time.Hour), LimitedUntil: now.Add(72 * time.Hour), Class: order.WaitsLimit, Reason: "limit"}
			s.Now = now.Add(48 * time.Hour)
		}}, want: order.Await, class: order.WaitsLimit, again: now.Add(72 * time.Hour)},
	}
	for _, tc := range tests {
		s := situation()
		for _, change := range tc.change {
			change(&s)
		}
		got := order.Next(s)
		if got.Action != tc.want || tc.class != "" && got.Class != tc.class || !strings.Contains(got.Reason, tc.text) || tc.more != nil && !tc.more(got) {
			t.Errorf("%s: %+v", tc.reason, got)
		}
		if !tc.again.IsZero() && !got.Again.Equal(tc.again) {
			t.Errorf("%s: again at %v", tc.reason, got.Again)
		}
	}
}

func TestState(t *testing.T) {
	for said, want := range map[string]acmev1.State{
		"valid": "valid", "ready": "ready", "pending": "pending", "processing": "processing", "invalid": "invalid", "expired": "expired",
		"deactivated": "invalid", "revoked": "invalid", "errored": "", "": "", "nonsense": "",
	} {
		if got := order.State(said); got != want {
			t.Errorf("%s: %s", said, got)
		}
	}
}

// What is set once stays, and a failure is not written without its reason.
func TestObserve(t *testing.T) {
	status := acmev1.OrderStatus{}
	order.Observe(&status, rfc8555.Order{URL: "u", Finalize: "f", Authorizations: []string{"a", "b"}, Status: "pending"})
	order.Observe(&status, rfc8555.Order{URL: "u2", Finalize: "f2", Authorizations: []string{"b", "a"}, Status: "ready"})
	order.Observe(&status, rfc8555.Order{URL: "u2", Status: "invalid"})
	want := acmev1.OrderStatus{URL: "u", FinalizeURL: "f", State: acmev1.Ready, Authorizations: []acmev1.ACMEAuthorization{{URL: "a"}, {URL: "b"}}}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
	order.Fail(&status, acmev1.Invalid, "why", now)
	order.Fail(&status, acmev1.Errored, "", now.Add(time.Hour))
	if status.State != acmev1.Errored || status.Reason != "why" || !status.FailureTime.Equal(new(metav1.NewTime(now))) {
		t.Errorf("%+v", status)
	}
}

func TestInvalidated(t *testing.T) {
	why := problem(0, "caa")
	authorizations := []rfc8555.Authorization{
		{Identifier: rfc8555.Identifier{Value: "a.example.com"}, Wildcard: true, Challenges: []rfc8555.Challenge{{Type: "dns-01", Error: why}, {Type: "http-01"}}},
	}
	failed := &acmev1.Challenge{Spec: acmev1.ChallengeSpec{DNSName: "b.example.com", Type: "HTTP-01"}, Status: acmev1.ChallengeStatus{State: acmev1.Errored, Reason: "oops"}}
	tests := []struct {
		reason         string
		said           rfc8555.Order
		authorizations []rfc8555.Authorization
		challenges     []*acmev1.Challenge
		want           string
		state          acmev1.State
	}{
		{"the order says why", rfc8555.Order{Status: "invalid", Error: why}, authorizations, nil, "The CA says that the order is invalid: urn:ietf:params:acme:error:caa: detail", acmev1.Invalid},
		{"an authorization says why", rfc8555.Order{Status: "invalid"}, authorizations, nil,
			"The validation of *.a.example.com by dns-01 has failed: urn:ietf:params:acme:error:caa: detail", acmev1.Invalid},
		{"a Challenge says why", rfc8555.Order{Status: "invalid"}, nil, []*acmev1.Challenge{failed}, "The validation of b.example.com by HTTP-01 has failed: oops", acmev1.Invalid},
		{"nobody says why", rfc8555.Order{Status: "expired"}, nil, nil, "The CA says that the order is expired, but not why", acmev1.Expired},
	}
	for _, tc := range tests {
		if got := order.Invalidated(tc.said, tc.authorizations, tc.challenges); got.Reason != tc.want || got.State != tc.state || got.Action != order.End {
			t.Errorf("%s: %+v", tc.reason, got)
		}
	}
}

func TestNewOrder(t *testing.T) {
	spec := func(cn string, values ...string) acmev1.OrderSpec {
		s := acmev1.OrderSpec{CommonName: cn}
		for _, value := range values {
			if strings.Contains(value, ":") || strings.HasPrefix(value, "192.") {
				s.IPAddresses = append(s.IPAddresses, value)
			} else {
				s.DNSNames = append(s.DNSNames, value)
			}
		}
		return s
	}
	tests := []struct {
		reason string
		spec   acmev1.OrderSpec
		want   string
	}{
		{"sorted, each once", spec("", "b.example.com", "a.example.com", "b.example.com"), "dns:a.example.com dns:b.example.com"},
		{"names before addresses", spec("", "192.0.2.1", "b.example.com", "2001:db8::1"), "dns:b.example.com ip:192.0.2.1 ip:2001:db8::1"},
		{"a common name", spec("a.example.com"), "dns:a.example.com"},
		{"a common name that is listed", spec("a.example.com", "a.example.com"), "dns:a.example.com"},
		{"a wildcard as the common name", spec("*.example.com"), "dns:*.example.com"},
		{"an address as the common name", spec("2001:DB8:0::1"), "ip:2001:db8::1"},
		{"a common name of one label", spec("web", "a.example.com"), "dns:a.example.com"},
		{"a common name of a person", spec("Jane Doe", "a.example.com"), "dns:a.example.com"},
	}
	for _, tc := range tests {
		var got []string
		for _, id := range order.NewOrder(tc.spec, now).Identifiers {
			got = append(got, id.Type+":"+id.Value)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %s", tc.reason, got)
		}
	}
	full := acmev1.OrderSpec{Duration: &metav1.Duration{Duration: time.Hour}, Profile: "p", Replaces: "r"}
	if diff := cmp.Diff(rfc8555.OrderRequest{NotAfter: now.Add(time.Hour), Profile: "p", Replaces: "r"}, order.NewOrder(full, now)); diff != "" {
		t.Error(diff)
	}
}

func TestDoubts(t *testing.T) {
	tests := []struct {
		reason  string
		solvers string
		names   []string
		ips     []string
		want    string
	}{
		{"nothing to say", "http", []string{"a.example.com"}, []string{"192.0.2.1"}, ""},
		{"no names", "http", nil, nil, "no DNS names and no IP addresses"},
		{"a wildcard without DNS", "http", []string{"*.example.com"}, nil, "can only be validated by DNS"},
		{"a wildcard", "dns", []string{"*.example.com"}, nil, ""},
		{"an address without HTTP", "dns", nil, []string{"192.0.2.1"}, "cannot be validated by DNS"},
		{"an underscore", "http", []string{"a_b.example.com"}, nil, "has an underscore"},
		{"one label", "http", []string{"web"}, nil, "is not a full DNS name"},
	}
	for _, tc := range tests {
		o := &acmev1.Order{Spec: acmev1.OrderSpec{DNSNames: tc.names, IPAddresses: tc.ips}}
		got := strings.Join(order.Doubts(o, &acmev1.ACMEIssuer{Solvers: []acmev1.ACMEChallengeSolver{solver(tc.solvers)}}), "; ")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s", tc.reason, got)
		}
	}
	var many []string
	for i := range 101 {
		many = append(many, strings.Repeat("a", i%60+1)+strings.Repeat("b", i/60+1)+".example.com")
	}
	if got := order.Doubts(&acmev1.Order{Spec: acmev1.OrderSpec{DNSNames: many}}, &acmev1.ACMEIssuer{}); len(got) != 1 || !strings.Contains(got[0], "101 names") {
		t.Error(got)
	}
}

// An Order that waits for several Challenges names the one that has come least
// far.
func TestNamesTheSlowest(t *testing.T) {
	for _, tc := range []struct {
		reason string
		b      acmev1.ChallengeStatus
		want   string
	}{
		{"both are presented", acmev1.ChallengeStatus{Processing: true, Presented: true}, "a.example.com"},
		{"b is not presented", acmev1.ChallengeStatus{Processing: true}, "b.example.com"},
		{"b waits for its turn", acmev1.ChallengeStatus{}, "b.example.com"},
		{"the CA validates b", acmev1.ChallengeStatus{Processing: true, Presented: true, State: acmev1.Processing}, "a.example.com"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := situation()
			challenge(&s, 0, acmev1.Pending).Status = acmev1.ChallengeStatus{Processing: true, Presented: true, State: acmev1.Pending}
			challenge(&s, 1, acmev1.Pending).Status = tc.b
			want := "Waiting for the validation of " + tc.want + " by HTTP-01 (Challenge "
			if got := order.Next(s); !strings.HasPrefix(got.Reason, want) || !strings.HasSuffix(got.Reason, ") and for 1 others") {
				t.Errorf("%q, want %q", got.Reason, want)
			}
		})
	}
}
