package revoke_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/revoke"
	"github.com/certplane/certplane/internal/pki"
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
