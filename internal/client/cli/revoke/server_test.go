package revoke_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/revoke"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
)

// stage is a server with a client for Revocations.
type stage struct {
	server *apitest.Server
	client client.Client
}

func newStage(t *testing.T) stage {
	s := apitest.Start(t)
	c, err := certificates.Connect(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	return stage{s, c}
}

// issue issues client certificates for a user, one for each name of a request.
func (s stage) issue(t *testing.T, user string, requests ...string) []*x509.Certificate {
	t.Helper()
	admin := apitest.Client(t, s.server.Admin(t))
	var issued []*x509.Certificate
	for _, name := range requests {
		csr := apitest.Create(t, admin, apitest.NewCSR(t, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: user}, apitest.NewKey(t)))
		apitest.Decide(t, admin, csr, certificatesv1.CertificateApproved)
		cert, err := pki.ParseFirst(apitest.Issued(t, admin, csr))
		if err != nil {
			t.Fatal(err)
		}
		issued = append(issued, cert)
		record := client.ObjectKey{Name: pki.Fingerprint(cert)} // a list may be older than the certificate
		apitest.Eventually(t, "it is recorded", func() bool { return s.client.Get(t.Context(), record, &inventoryv1alpha1.IssuedCertificate{}) == nil })
	}
	return issued
}

// run runs the verb. typed is what a person types at the terminal; without one it is empty.
func (s stage) run(t *testing.T, typed string, cfg revoke.Config) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	cfg.Connect = func() (client.Client, error) { return s.client, nil }
	cfg.Command = func(words ...string) string { return "certplane " + strings.Join(words, " ") }
	cfg.Reason, cfg.Now, cfg.Stdout, cfg.Stderr = "Superseded", time.Now(), &out, &problems
	if typed != "" {
		cfg.Terminal = strings.NewReader(typed)
	}
	err = revoke.Run(t.Context(), cfg)
	return out.String(), problems.String(), err
}

// revocations returns the number of Revocations.
func (s stage) revocations(t *testing.T) int {
	t.Helper()
	list := &v1alpha1.RevocationList{}
	if err := s.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// A selection is revoked once a person types its number, and only what was counted.
func TestConfirmed(t *testing.T) {
	s := newStage(t)
	s.issue(t, "ann", "ann-1", "ann-2")
	which := revoke.Config{Config: certificates.Config{Signer: certificatesv1.KubeAPIServerClientSignerName}}
	for _, typed := range []string{"yes\n", "3\n", "\n", "12\n"} {
		_, stderr, err := s.run(t, typed, which)
		if err == nil || !strings.Contains(err.Error(), "nothing was revoked") || !strings.Contains(stderr, "This revokes 2 certificates of 1 signer, requested by 1 user. Type 2 to go on: ") {
			t.Errorf("%q was typed: %v, %s", typed, err, stderr)
		}
	}
	if n := s.revocations(t); n != 0 {
		t.Fatalf("%d Revocations", n)
	}
	out, _, err := s.run(t, "2\n", which)
	if err != nil || strings.Count(out, "revoked CN=ann (kubernetes.io/kube-apiserver-client, serial ") != 2 {
		t.Fatalf("%v:\n%s", err, out)
	}
	list := &v1alpha1.RevocationList{}
	if err := s.client.List(t.Context(), list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v, %v", list.Items, err)
	}
	if spec := list.Items[0].Spec; spec.AtMost != 2 || spec.Selection == nil || spec.Selection.IssuedBefore == nil || list.Items[0].Status.Recorded != 2 {
		t.Errorf("%+v", list.Items[0])
	}
}

// What is issued while a person thinks is not revoked.
func TestIssuedMeanwhile(t *testing.T) {
	s := newStage(t)
	s.issue(t, "ann", "ann-1")
	thinking := &terminal{line: "1\n", before: func() { s.issue(t, "ann", "ann-2") }}
	if _, _, err := s.run(t, "", revoke.Config{Config: certificates.Config{Signer: certificatesv1.KubeAPIServerClientSignerName}, Terminal: thinking}); err != nil {
		t.Fatal(err)
	}
	found, _, err := certificates.Find(t.Context(), s.client, certificates.Config{Name: "ann", Limit: 10, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range found {
		if revoked := r.Revocation != nil; revoked != (r.Request.Name == "ann-1") {
			t.Errorf("%s is revoked: %t", r.Request.Name, revoked)
		}
	}
}

// terminal is a person who types a line after something has happened.
type terminal struct {
	line   string
	before func()
}

func (p *terminal) Read(into []byte) (int, error) {
	p.before()
	return copy(into, p.line), nil
}

// Nobody loses the own login without being asked, by whatever the certificate is named.
func TestOwnCertificate(t *testing.T) {
	s := newStage(t)
	own := s.issue(t, "ann", "ann-1", "ann-2")[0]
	for name, cfg := range map[string]revoke.Config{
		"serial": {Config: certificates.Config{Serial: own.SerialNumber.Text(16)}}, "file": {File: own},
		"selection": {Config: certificates.Config{Signer: certificatesv1.KubeAPIServerClientSignerName}},
	} {
		cfg.Own = own
		_, stderr, err := s.run(t, "n\n", cfg)
		if err == nil || !strings.Contains(stderr, "the certificate of your own kubeconfig") {
			t.Errorf("%s: %v, %s", name, err, stderr)
		}
	}
	if n := s.revocations(t); n != 0 {
		t.Errorf("%d Revocations", n)
	}
}

// The exit code says whether the certificates are in all lists.
func TestListed(t *testing.T) {
	s := newStage(t)
	certs := s.issue(t, "ann", "ann-1", "ann-2", "ann-3")
	for n, tt := range []struct {
		condition metav1.Condition
		wait      time.Duration
		want      string
		code      int
	}{
		{metav1.Condition{Status: metav1.ConditionTrue, Reason: "Listed", Message: "in the list of CN=ca, number 7"}, time.Minute, "refused by this server now. in the list of CN=ca, number 7\n", 0},
		{metav1.Condition{Status: metav1.ConditionFalse, Reason: "NoList", Message: "CN=ca has no list"}, time.Minute, "not in all revocation lists: CN=ca has no list", revoke.NotListed},
		{metav1.Condition{Status: metav1.ConditionFalse, Reason: "Signing", Message: "the token is away"}, time.Second, "not in all revocation lists: the token is away", revoke.NotListed},
	} {
		began := time.Now()
		out, _, err := stage{s.server, listing{s.client, tt.condition}}.run(t, "", revoke.Config{File: certs[n], Wait: tt.wait})
		if tt.wait == time.Minute && time.Since(began) > tt.wait/2 {
			t.Errorf("%s: it waits although it is decided", tt.condition.Reason)
		}
		var failed *exit.Error
		code := 0
		if errors.As(err, &failed) {
			code = failed.Code
		}
		if text := fmt.Sprint(out, err); code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s: code %d, %s", tt.condition.Reason, code, text)
		}
	}
}

// listing is a client of a server that decides at once whether a Revocation is listed.
type listing struct {
	client.Client
	condition metav1.Condition
}

func (c listing) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, into, options...); err != nil {
		return err
	}
	c.condition.Type = v1alpha1.RevocationListed
	meta.SetStatusCondition(&into.(*v1alpha1.Revocation).Status.Conditions, c.condition)
	return nil
}

// A name that is the serial number of another certificate does not keep that one from being
// revoked: requesters choose names.
func TestNameOfAnotherSerial(t *testing.T) {
	s := newStage(t)
	stolen := s.issue(t, "ann", "ann-1")[0]
	serial := stolen.SerialNumber.Text(16)
	s.issue(t, serial, "decoy")
	if out, _, err := s.run(t, "", revoke.Config{Config: certificates.Config{Name: serial}}); err != nil || !strings.HasPrefix(out, "revoked CN=ann (") {
		t.Errorf("%v: %s", err, out)
	}
}

// numbered returns the n-th of many records, which differ in all that certificates are selected
// by. Every fifth is from before a server recorded keys.
func numbered(n int, now time.Time) *inventoryv1alpha1.IssuedCertificate {
	digest := func(of string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(of))) }
	kind := []rights.Kind{rights.SigningRequests, rights.IssuerRequests, rights.PodRequests}[n%3]
	r := &inventoryv1alpha1.IssuedCertificate{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(n%10+1) * time.Hour)), Labels: map[string]string{"team": fmt.Sprint(n % 71)}},
		SignerName: fmt.Sprint("example.com/", n%4),
		Request:    inventoryv1alpha1.RequestFacts{APIGroup: kind.Group, Kind: kind.Name, Name: fmt.Sprint("request-", n), Requester: fmt.Sprint("user-", n%97)},
		Certificate: inventoryv1alpha1.CertificateFacts{
			SerialNumber: fmt.Sprintf("1%06x", n), AuthorityKeyID: strings.Repeat([]string{"a1", "b2"}[min(n%103, 1)], 20), Fingerprint: digest(fmt.Sprint(n)),
			DNSNames: []string{fmt.Sprintf("Host-%d.example.com", n/3)}, NotBefore: metav1.NewTime(now.AddDate(0, 0, -1)), NotAfter: metav1.NewTime(now.AddDate(0, 0, 1+n%40)),
		},
	}
	if kind.Namespaced {
		r.Request.Namespace = fmt.Sprint("ns-", n%13)
		r.Location = &inventoryv1alpha1.Location{Kind: "Certificate", Namespace: r.Request.Namespace, Name: fmt.Sprint("crt-", n)}
	}
	if n%3 == 2 {
		r.Location.Kind, r.Location.Node = "Pod", fmt.Sprint("edge-", n%83)
	}
	if n%5 > 0 {
		r.Certificate.KeyFingerprint, r.Certificate.Twin = digest(fmt.Sprint("key ", n/2)), digest(fmt.Sprint("twin ", n))[:32]
	}
	switch {
	case n%61 == 0:
		r.Certificate.NotAfter = metav1.NewTime(now.Add(-time.Hour))
	case n%67 == 0:
		r.Use = "a CA"
	}
	return r
}

// Each way of selecting certificates revokes exactly the right ones among 10,000. A dry run
// shows their number, and another number confirms nothing.
func TestExactlyTheRightOnes(t *testing.T) {
	s := newStage(t)
	const all = 10_000
	now := time.Now().UTC().Truncate(time.Second)
	var records []*inventoryv1alpha1.IssuedCertificate
	for n := range all {
		records = append(records, numbered(n, now))
	}
	s.server.Record(t, records...)
	issuedBefore := metav1.NewTime(now.Add(-5 * time.Hour))
	selected := func(take func(n int, r *inventoryv1alpha1.IssuedCertificate) bool) func(int) bool {
		return func(n int) bool { return n%61 != 0 && n%67 != 0 && take(n, records[n]) }
	}
	one := func(n int) func(int) bool { return func(m int) bool { return n == m } }
	ways := []struct {
		reason string
		verb   revoke.Config
		api    *v1alpha1.RevocationSelection // what the verb cannot express
		want   func(n int) bool
	}{
		{reason: "name", verb: revoke.Config{Config: certificates.Config{Name: "HOST-7.example.com"}}, want: func(n int) bool { return n/3 == 7 }},
		{reason: "serial number", verb: revoke.Config{Config: certificates.Config{Serial: records[3001].Certificate.SerialNumber}}, want: one(3001)},
		{reason: "fingerprint", verb: revoke.Config{Config: certificates.Config{Fingerprint: records[3002].Certificate.Fingerprint}}, want: one(3002)},
		{reason: "record", verb: revoke.Config{Config: certificates.Config{Name: records[3003].Certificate.Fingerprint[:32]}}, want: one(3003)},
		{reason: "csr", verb: revoke.Config{Config: certificates.Config{RequestName: "request-3006"}, RequestKind: &rights.SigningRequests}, want: one(3006)},
		{reason: "certificaterequest", verb: revoke.Config{Config: certificates.Config{Namespace: records[3007].Request.Namespace, RequestName: "request-3007"}, RequestKind: &rights.IssuerRequests}, want: one(3007)},
		{reason: "podcertificaterequest", verb: revoke.Config{Config: certificates.Config{Namespace: records[3008].Request.Namespace, RequestName: "request-3008"}, RequestKind: &rights.PodRequests}, want: one(3008)},
		{reason: "Certificate", verb: revoke.Config{Config: certificates.Config{Namespace: records[3010].Request.Namespace}, Certificate: "crt-3010"}, want: one(3010)},
		{reason: "key", verb: revoke.Config{Config: certificates.Config{KeyFingerprint: records[3013].Certificate.KeyFingerprint}}, want: func(n int) bool { return n/2 == 3013/2 }},
		{reason: "a key, one certificate without it", verb: revoke.Config{Config: certificates.Config{KeyFingerprint: records[3021].Certificate.KeyFingerprint}}, want: one(3021)},
		{reason: "host", verb: revoke.Config{Host: "edge-5"}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool { return n%3 == 2 && n%83 == 5 })},
		{reason: "requester", verb: revoke.Config{Config: certificates.Config{Requester: "user-5"}}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool { return n%97 == 5 })},
		{reason: "labels", verb: revoke.Config{Config: certificates.Config{Selector: labels.SelectorFromSet(labels.Set{"team": "5"})}}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool { return n%71 == 5 })},
		{reason: "namespace", verb: revoke.Config{Config: certificates.Config{Namespace: "ns-5"}}, want: selected(func(_ int, r *inventoryv1alpha1.IssuedCertificate) bool { return r.Request.Namespace == "ns-5" })},
		{reason: "CA", verb: revoke.Config{CA: strings.Repeat("a1", 20)}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool { return n%103 == 0 })},
		{reason: "signer and requester", verb: revoke.Config{Config: certificates.Config{Signer: "example.com/2", Requester: "user-6"}}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool { return n%4 == 2 && n%97 == 6 })},
		{reason: "requester and namespace", verb: revoke.Config{Config: certificates.Config{Requester: "user-6", Namespace: "ns-3"}}, want: selected(func(n int, r *inventoryv1alpha1.IssuedCertificate) bool {
			return n%97 == 6 && r.Request.Namespace == "ns-3"
		})},
		{reason: "names and requesters", api: &v1alpha1.RevocationSelection{Names: []string{"host-2000.example.com", "host-2001.example.com"}, Requesters: []string{records[6001].Request.Requester}}, want: one(6001)},
		{reason: "alternatives", api: &v1alpha1.RevocationSelection{
			Requesters: []string{"user-7", "user-8"}, AuthorityKeyIDs: []string{strings.Repeat("B2", 20)}, Labels: "team in (1, 2, 3)",
		}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool {
			return (n%97 == 7 || n%97 == 8) && n%71 >= 1 && n%71 <= 3
		})},
		{reason: "names and keys", api: &v1alpha1.RevocationSelection{
			Names: []string{"host-1000.example.com", "HOST-1001.example.com"}, KeyFingerprints: []string{strings.ToUpper(records[3001].Certificate.KeyFingerprint), records[3004].Certificate.KeyFingerprint},
		}, want: selected(func(n int, r *inventoryv1alpha1.IssuedCertificate) bool { return n == 3004 })}, // 3001 is revoked, 3000 and 3005 have no key
		{reason: "nodes and namespaces", api: &v1alpha1.RevocationSelection{Nodes: []string{"edge-6", "edge-7"}, Namespaces: []string{"ns-6", "ns-7", "ns-8"}}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool {
			return n%3 == 2 && (n%83 == 6 || n%83 == 7) && n%13 >= 6 && n%13 <= 8
		})},
		{reason: "signers", api: &v1alpha1.RevocationSelection{Signers: []string{"example.com/0", "example.com/1"}, IssuedBefore: &issuedBefore}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool { return n%4 < 2 && n%10 > 4 })},
		{reason: "signer, until now", verb: revoke.Config{Config: certificates.Config{Signer: "example.com/3"}}, want: selected(func(n int, _ *inventoryv1alpha1.IssuedCertificate) bool { return n%4 == 3 })},
	}
	apitest.Eventually(t, "the server has the records", func() bool {
		found, _, err := certificates.Find(t.Context(), s.client, certificates.Config{RecordName: records[all-1].Certificate.Fingerprint[:32], Limit: 1, Now: now})
		return err == nil && len(found) == 1
	})
	want, acts := map[string]string{}, 0
	for _, way := range ways {
		count := 0
		for n, r := range records {
			if name := r.Certificate.Fingerprint[:32]; want[name] == "" && way.want(n) {
				want[name] = way.reason
				count++
			}
		}
		if count == 0 {
			t.Fatalf("%s: selects none", way.reason)
		}
		if way.api != nil {
			r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Spec: v1alpha1.RevocationSpec{Selection: way.api, AtMost: int32(count), Reason: "Superseded", Message: way.reason}}
			if err := s.client.Create(t.Context(), r); err != nil || int(r.Status.Recorded) != count {
				t.Errorf("%s: %v, recorded %d, want %d", way.reason, err, r.Status.Recorded, count)
			}
			acts++
			continue
		}
		cfg := way.verb
		cfg.All, cfg.Message, cfg.DryRun = true, way.reason, true
		if out, _, err := s.run(t, "", cfg); err != nil || count > 1 && !strings.HasPrefix(out, fmt.Sprintf("would revoke %d certificates of ", count)) {
			t.Errorf("%s: a dry run, want %d: %v\n%s", way.reason, count, err, out)
		}
		cfg.DryRun, cfg.Yes = false, count+1
		if _, _, err := s.run(t, "", cfg); err == nil || !strings.Contains(err.Error(), "nothing was revoked") {
			t.Errorf("%s: confirmed by another number: %v", way.reason, err)
		}
		if n := s.revocations(t); n != acts {
			t.Errorf("%s: %d Revocations before it, want %d", way.reason, n, acts)
		}
		cfg.Yes = count
		if _, _, err := s.run(t, "", cfg); err != nil {
			t.Errorf("%s: %v", way.reason, err)
		}
		acts++
	}
	list := &v1alpha1.RevocationList{}
	if err := s.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, r := range list.Items {
		reasons[r.Name] = r.Spec.Message
	}
	found, _, err := certificates.Find(t.Context(), s.client, certificates.Config{Limit: 2 * all, Ended: true, Now: now})
	if err != nil || len(found) < all {
		t.Fatalf("%d records, %v", len(found), err)
	}
	for _, r := range found {
		got := ""
		if r.Revocation != nil {
			got = reasons[r.Revocation.Name]
		}
		if got != want[r.Name] {
			t.Errorf("%s is revoked by %q, want %q", r.Request.Name, got, want[r.Name])
		}
	}
}
