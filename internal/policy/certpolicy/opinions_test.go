package certpolicy_test

import (
	"crypto/x509"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// TestOpinionsAnswerTheirQuestion: what policies have said about a request is
// not used for one that differs in any field, also in one that is added later.
func TestOpinionsAnswerTheirQuestion(t *testing.T) {
	s := set(t, map[string]string{"everything": everything})
	in := of(csrs).input(t)
	kept := s.Opinions(in)
	if again := in; !kept.Answers(s, &again) {
		t.Error("the same question is asked again")
	}
	ofNobody := []string{"Object", "PKCS10", "Key", "Unreadable"} // they follow from others, or no policy sees them
	differs := func(part string, of any) {
		fields := reflect.ValueOf(of).Elem()
		for i := range fields.NumField() {
			name := fields.Type().Field(i).Name
			if part == "Request" && slices.Contains(ofNobody, name) {
				continue
			}
			changed := in
			target := map[string]reflect.Value{"Input": reflect.ValueOf(&changed), "Request": reflect.ValueOf(&changed.Request), "Facts": reflect.ValueOf(&changed.Facts)}[part]
			otherValue(t, target.Elem().Field(i))
			if kept.Answers(s, &changed) {
				t.Errorf("%s.%s is different, and the opinions answer it", part, name)
			}
		}
	}
	differs("Request", &in.Request)
	differs("Facts", &in.Facts)
	for name, asked := range map[string]func(*certpolicy.Input){
		"with unknown seals":           func(in *certpolicy.Input) { in.SealsUnknown = true },
		"with patience":                func(in *certpolicy.Input) { in.Patience++ },
		"of a certificate":             func(in *certpolicy.Input) { in.Certificate = &x509.Certificate{} },
		"of a prospective certificate": func(in *certpolicy.Input) { in.Prospective = &x509.Certificate{} },
		"of an earlier time":           func(in *certpolicy.Input) { in.Time = in.Time.Add(-time.Second) },
	} {
		changed := in
		asked(&changed)
		if kept.Answers(s, &changed) {
			t.Errorf("the opinions answer the question %s", name)
		}
	}
	others := in
	others.Stage, others.Votes = "Sign", []quorum.Vote{{}}
	if !kept.Answers(s, &others) {
		t.Error("the stage and votes do not matter")
	}
	quotas := set(t, map[string]string{"p": "effect: Limit\nmatch: {signers: ['*']}\n" + hourly})
	before := in
	before.Stage = "Create"
	if quotas.Opinions(before).Answers(quotas, &in) {
		t.Error("opinions from before quotas are checked answer when they are")
	}
	if !s.Opinions(before).Answers(s, &in) {
		t.Error("without quotas, the stage does not matter")
	}
	if kept.Answers(set(t, map[string]string{"everything": everything}), &others) {
		t.Error("the opinions of one set answer for another")
	}
	pods := of(pcrs).input(t)
	if s.Opinions(pods).Answers(s, &pods) {
		t.Error("opinions about a pod's request are used again")
	}
}

// TestExpressionsAboutTheCertificate: they are evaluated again when there is one.
func TestExpressionsAboutTheCertificate(t *testing.T) {
	s := set(t, map[string]string{"p": `
effect: Limit
match: {signers: ["*"]}
rules:
- {name: requested, expression: "request.dnsNames == ['www.shop.example.com']"}
- {name: issued, expression: "certificate.dnsNames == request.dnsNames"}
- {name: unknown, expression: "certificate.dnsNames == request.dnsNames && node.metadata.name == ''"}
`})
	in := of(csrs).input(t)
	before := s.Opinions(in)
	in.Certificate = issued(t, func(c *x509.Certificate) { c.DNSNames = []string{"other.example.com"} })
	after, _ := before.About(in).Decide(in.Stage, in.Time, nil)
	if encode(t, after) != encode(t, s.Decide(in)) {
		t.Error("the decision about the certificate depends on what was judged before")
	}
	if len(after.Violations) == 0 || after.Violations[0].At != "rules[issued]" {
		t.Errorf("the certificate with another name: %s", encode(t, after))
	}
}

// otherValue gives a field another value.
func otherValue(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.String:
		field.SetString(field.String() + "x")
	case reflect.Bool:
		field.SetBool(!field.Bool())
	case reflect.Slice:
		field.Set(reflect.Append(field, reflect.Zero(field.Type().Elem())))
	case reflect.Map:
		more := reflect.MakeMap(field.Type())
		more.SetMapIndex(reflect.Zero(field.Type().Key()), reflect.Zero(field.Type().Elem()))
		field.Set(more)
	case reflect.Pointer:
		if field.IsNil() {
			field.Set(reflect.New(field.Type().Elem()))
			return
		}
		field.SetZero()
	case reflect.Struct:
		if at, isTime := field.Interface().(time.Time); isTime {
			field.Set(reflect.ValueOf(at.Add(time.Second)))
			return
		}
		otherValue(t, field.Field(0))
	default:
		t.Fatalf("a test does not know how to change a %s", field.Type())
	}
}

// TestOpinionsEnd: opinions are formed again when an exception has ended, and
// when the patience with an unknown fact is over.
func TestOpinionsEnd(t *testing.T) {
	foreign := func(a *asked) { a.dns = append(a.dns, "www.example.org") }
	excepted := setWith(t, map[string]string{"p": strict, "everything": everything}, map[string]string{
		"x": `{policies: [p], items: [certificate.names.dns], reason: test, notAfter: "2026-11-22T09:00:00Z", match: {signers: ["*"], requesters: {users: [alice]}}}`,
	})
	open := set(t, map[string]string{"p": `{effect: Allow, match: {signers: ["*"]}, certificate: {names: {dns: {expression: node.hostnames}}, usages: {allowed: [digital signature, server auth]}}}`})
	for _, tc := range []struct {
		reason string
		set    *certpolicy.Set
		ask    []func(*asked)
		after  time.Duration
		same   bool
	}{
		{"before the exception's end", excepted, fns(foreign), -time.Second, true},
		{"at the exception's end", excepted, fns(foreign), 0, false},
		{"while there is patience", open, fns(nodeN1()), 59 * time.Second, true},
		{"after it", open, fns(nodeN1()), time.Minute, false},
	} {
		first := of(csrs).but(tc.ask...).but(func(a *asked) { a.at, a.created = now.Add(-2*time.Second), now.Add(-time.Minute) }).input(t)
		later := first
		later.Time = now.Add(tc.after)
		kept := tc.set.Opinions(first)
		if got := kept.Answers(tc.set, &later); got != tc.same {
			t.Errorf("%s: the opinions answer again: %t", tc.reason, got)
		}
		was, _ := kept.Decide(later.Stage, later.Time, nil)
		if is := tc.set.Decide(later); (brief(was) == brief(is)) != tc.same {
			t.Errorf("%s: %s, and then %s", tc.reason, brief(was), brief(is))
		}
	}
}
