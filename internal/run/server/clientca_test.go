package server

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/pki"
)

const year = 365 * day

func TestClientCAHierarchy(t *testing.T) {
	dir := t.TempDir()
	opened := mustOpenPKI(t, dir, someNames, firstStart)
	roots, err := pki.ParseBundle(contents(t, filepath.Join(dir, "client-ca-root.crt")))
	if err != nil {
		t.Fatal(err)
	}
	root, issuing := roots[0], opened.clientCA.issuing.chain[0]
	if chain := opened.clientCA.issuing.chain; len(roots) != 1 || len(chain) != 2 || !chain[1].Equal(root) || !opened.clientCA.authority.Anchor().Equal(root) {
		t.Errorf("%d roots, an issuing CA with a chain of %d, want one, and the root above the issuing CA", len(roots), len(chain))
	}
	if !issuing.MaxPathLenZero || issuing.CheckSignatureFrom(root) != nil {
		t.Errorf("the issuing CA has path length %d, issuer %s", issuing.MaxPathLen, issuing.Issuer)
	}
	if root.NotAfter.Sub(firstStart) < 10*year || issuing.NotAfter.Sub(firstStart) != 5*year {
		t.Errorf("the root ends on %v, the issuing CA on %v", root.NotAfter, issuing.NotAfter)
	}
	if opened.clientCA.trusted != filepath.Join(dir, "client-ca-root.crt") {
		t.Errorf("the server trusts %s, want the root", opened.clientCA.trusted)
	}
	if chain := opened.admin.chain; len(chain) != 2 || !chain[1].Equal(issuing) {
		t.Errorf("the administrator has a chain of %d, want the issuing CA with the certificate", len(chain))
	}
}

// The data of a server from before there was a root, or with a CA that an
// operator has put there, stays as it is.
func TestClientCAWithoutRoot(t *testing.T) {
	selfSigned := func(t *testing.T, dir string) {
		if _, _, err := makeRoot(unrecorded, dir, "client-ca", "certplane client CA", firstStart); err != nil {
			t.Fatal(err)
		}
	}
	brought := func(t *testing.T, dir string) {
		mustOpenPKI(t, dir, someNames, firstStart)
		for _, name := range []string{"client-ca-root.crt", "client-ca-root.key"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		reason string
		make   func(*testing.T, string)
		chain  int
	}{
		{"self-signed", selfSigned, 1},
		{"issued by somebody else", brought, 2},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			dir := t.TempDir()
			tc.make(t, dir)
			before := contents(t, filepath.Join(dir, "client-ca.crt"))
			for _, when := range []time.Time{firstStart, firstStart.Add(issuingLifetime - renewIssuingBefore + time.Hour)} {
				opened := mustOpenPKI(t, dir, someNames, when)
				if opened.clientCA.trusted != filepath.Join(dir, "client-ca.crt") || len(opened.admin.chain) != tc.chain {
					t.Errorf("the server trusts %s, the administrator has a chain of %d", opened.clientCA.trusted, len(opened.admin.chain))
				}
				if !bytes.Equal(before, contents(t, filepath.Join(dir, "client-ca.crt"))) {
					t.Error("the CA changed")
				}
				if _, err := os.Stat(filepath.Join(dir, "client-ca-root.crt")); err == nil {
					t.Error("a root was made")
				}
			}
		})
	}
}

// TestClientCARenewal starts servers over the years of one root.
func TestClientCARenewal(t *testing.T) {
	due := firstStart.Add(issuingLifetime - renewIssuingBefore)
	tests := []struct {
		reason  string
		offline bool // the root's key is in another place
		when    time.Time
		renewed bool
		ends    time.Time
		says    string
	}{
		{reason: "a second early", when: due.Add(-time.Second), ends: firstStart.Add(5 * year)},
		{reason: "in time", when: due, renewed: true, ends: due.Add(5 * year)},
		{reason: "after its end", when: firstStart.Add(6 * year), renewed: true, ends: firstStart.Add(10 * year)},
		{reason: "up to the end of the root", when: firstStart.Add(9 * year), renewed: true, ends: firstStart.Add(10 * year)},
		{reason: "without the root's key, early", offline: true, when: due.Add(-time.Second), ends: firstStart.Add(5 * year)},
		{reason: "without the root's key, in time", offline: true, when: due, ends: firstStart.Add(5 * year), says: "needs the key of its root"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			dir := t.TempDir()
			first := mustOpenPKI(t, dir, someNames, firstStart)
			key := filepath.Join(dir, "client-ca-root.key")
			if tc.offline {
				if err := os.Rename(key, key+".elsewhere"); err != nil {
					t.Fatal(err)
				}
			}
			var then *credentials
			said := logged(t, func() { then = mustOpenPKI(t, dir, someNames, tc.when) })
			was, is := first.clientCA.issuing.chain[0], then.clientCA.issuing.chain[0]
			if was.Equal(is) == tc.renewed || !is.NotAfter.Equal(tc.ends) {
				t.Errorf("renewed: %v, ends on %v, want %v and %v", !was.Equal(is), is.NotAfter, tc.renewed, tc.ends)
			}
			if !then.clientCA.authority.Anchor().Equal(first.clientCA.authority.Anchor()) {
				t.Error("the renewed CA has another root")
			}
			if diff := cmp.Diff(was.RawSubjectPublicKeyInfo, is.RawSubjectPublicKeyInfo); diff != "" || !bytes.Equal(was.RawSubject, is.RawSubject) {
				t.Error("the renewed CA is another")
			}
			if !strings.Contains(said, tc.says) || tc.says == "" && strings.Contains(said, "needs") {
				t.Errorf("the log says %q, want %q", said, tc.says)
			}
		})
	}
}

// logged calls do and returns what is logged meanwhile.
func logged(t *testing.T, do func()) string {
	t.Helper()
	var out bytes.Buffer
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("logtostderr", "false"); err != nil {
		t.Fatal(err)
	}
	defer flags.Set("logtostderr", "true")
	klog.SetOutput(&out)
	defer klog.SetOutput(os.Stderr)
	do()
	klog.Flush()
	return out.String()
}

// A running server renews the CA as soon as the root's key is back. Until then
// it logs a reminder once a day, and no certificate outlives the CA.
func TestClientCARenewalOfRunningServer(t *testing.T) {
	r, clock := newTestRenewal(t)
	dir := r.dir.PKI()
	key := filepath.Join(dir, "client-ca-root.key")
	if err := os.Rename(key, key+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	ca := r.credentials.clientCA.issuing.chain[0]
	renewAt := func(when time.Time) string {
		t.Helper()
		return logged(t, func() {
			if err := r.renew(when); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, step := range []struct {
		before  time.Duration // the end of the CA
		reminds bool
	}{
		{renewIssuingBefore + time.Hour, false},
		{renewIssuingBefore, true},
		{renewIssuingBefore - time.Hour, false},
		{renewIssuingBefore - day, true},
		{day, true},
	} {
		if said := renewAt(ca.NotAfter.Add(-step.before)); strings.Contains(said, "needs the key of its root") != step.reminds {
			t.Errorf("%v before the end: %q, reminds: want %v", step.before, said, step.reminds)
		}
	}
	if end := adminCertificate(t, r.dir).NotAfter; !end.Equal(ca.NotAfter) {
		t.Errorf("the administrator's certificate ends on %v, want with the CA", end)
	}
	before := files(t, dir)
	renewAt(ca.NotAfter.Add(-23 * time.Hour))
	if again := changed(before, files(t, dir)); len(again) != 0 {
		t.Errorf("%v were made again although they can last no longer", again)
	}
	if err := r.renew(ca.NotAfter); err == nil || !strings.Contains(err.Error(), "client-ca.crt ended on") || !strings.Contains(err.Error(), "client-ca-root.key is missing") {
		t.Errorf("after the end: error %v", err)
	}

	if err := os.Rename(key+".elsewhere", key); err != nil {
		t.Fatal(err)
	}
	renewAt(ca.NotAfter)
	wantUsable(t, r.credentials, r.names, ca.NotAfter)
	if end := adminCertificate(t, r.dir).NotAfter; !end.After(ca.NotAfter) {
		t.Errorf("the administrator's certificate still ends on %v", end)
	}
	if old := clock.Now(); !r.credentials.clientCA.authority.Validity().NotAfter.After(old.Add(issuingLifetime)) {
		t.Error("the CA was not renewed")
	}
}

// What was issued before a renewal stays valid: key and name are the same.
func TestClientCARenewalKeepsCertificates(t *testing.T) {
	dir := t.TempDir()
	first := mustOpenPKI(t, dir, someNames, firstStart)
	due := firstStart.Add(issuingLifetime - renewIssuingBefore)
	issued, err := first.clientCA.authority.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "ann"}, first.admin.key.Public(), pki.ClientUsages(), 5*year, firstStart)
	if err != nil {
		t.Fatal(err)
	}
	then := mustOpenPKI(t, dir, someNames, due)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(contents(t, then.clientCA.trusted))
	for _, ca := range []*x509.Certificate{issued[1], then.clientCA.issuing.chain[0]} {
		chain := x509.NewCertPool()
		chain.AddCert(ca)
		if _, err := issued[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: chain, CurrentTime: due, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("with the CA that ends on %v: %v", ca.NotAfter, err)
		}
	}
}

// The file of the first root can contain more roots.
func TestClientCARootsOfOthers(t *testing.T) {
	dir := t.TempDir()
	mustOpenPKI(t, dir, someNames, firstStart)
	file := filepath.Join(dir, "client-ca-root.crt")
	overwrite(t, file, append(contents(t, file), contents(t, filepath.Join(dir, "serving-ca.crt"))...))
	then := mustOpenPKI(t, dir, someNames, firstStart.Add(issuingLifetime-renewIssuingBefore))
	if end := then.clientCA.authority.Validity().NotAfter; !end.After(firstStart.Add(issuingLifetime)) {
		t.Error("the CA was not renewed")
	}
}

// A server that has the root's key renews the CA for all servers of its store.
// A CA from the store is accepted only if a root has signed it.
func TestRenewedClientCAReachesOtherServers(t *testing.T) {
	stores := startClaimStores(t)
	first, second := stores.claim(t, "/shared"), stores.claim(t, "/shared")
	first.makePKI(t)
	mustStart(t, first)
	if err := os.CopyFS(second.dir.PKI(), os.DirFS(first.dir.PKI())); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(second.dir.PKI(), "client-ca-root.key")); err != nil {
		t.Fatal(err)
	}
	mustStart(t, second)
	exchange := func(c claim, ca clientCA) clientCA {
		t.Helper()
		latest, err := c.latestCA(t.Context(), ca)
		if err != nil {
			t.Fatal(err)
		}
		return latest
	}
	due := firstStart.Add(issuingLifetime - renewIssuingBefore)
	old := mustOpenPKI(t, second.dir.PKI(), someNames, firstStart).clientCA
	if same := exchange(second, old); !bytes.Equal(same.issuing.certPEM, old.issuing.certPEM) {
		t.Error("the only CA there is was replaced")
	}
	renewed := exchange(first, mustOpenPKI(t, first.dir.PKI(), someNames, due).clientCA)
	taken := exchange(second, old)
	if !bytes.Equal(taken.issuing.certPEM, renewed.issuing.certPEM) || bytes.Equal(taken.issuing.certPEM, old.issuing.certPEM) {
		t.Error("the renewed CA has not reached the second server")
	}
	if then := mustOpenPKI(t, second.dir.PKI(), someNames, due).clientCA; !bytes.Equal(then.issuing.certPEM, renewed.issuing.certPEM) {
		t.Error("the second server has not kept the renewed CA")
	}
	exchange(second, old) // must not bring the old one back
	if again := exchange(first, renewed); !bytes.Equal(again.issuing.certPEM, renewed.issuing.certPEM) {
		t.Error("an old CA has replaced a renewed one")
	}

	stranger, err := pki.NewRoot(pki.UnrecordedSigning, "certplane client root CA", renewed.issuing.key, 20*year, due)
	if err != nil {
		t.Fatal(err)
	}
	cert := renewed.authority.Certificate()
	forge := func(name string, key crypto.Signer) string {
		t.Helper()
		forged, err := stranger.NewIntermediate(pki.UnrecordedSigning, name, key, issuingLifetime, due.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return string(pki.EncodeCertificates(withRoot(forged, stranger)...))
	}
	otherKey, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ reason, offered, err string }{
		{reason: "nothing", offered: ""},
		{reason: "no certificate", offered: "junk"},
		{reason: "an older one", offered: string(old.issuing.certPEM)},
		{reason: "another CA", offered: forge(cert.Subject.CommonName, otherKey)},
		{reason: "another name", offered: forge("other", renewed.issuing.key)},
		{reason: "from another root", offered: forge(cert.Subject.CommonName, renewed.issuing.key), err: "certplane pki import"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			before := files(t, second.dir.PKI())
			got, err := taken.replacedBy([]byte(tc.offered))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if again := changed(before, files(t, second.dir.PKI())); len(again) > 0 || !bytes.Equal(got.issuing.certPEM, taken.issuing.certPEM) {
				t.Errorf("it was taken, and changed %v", again)
			}
		})
	}
}
