package publishlists_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

const listsPath = "/apis/inventory.certplane.dev/v1alpha1/revocationlists"

// fixture is a server with a Signer that signs for servers.
type fixture struct {
	*apitest.Server
	api client.Client
}

func start(t *testing.T, options ...func(*server.Config)) *fixture {
	t.Helper()
	f := &fixture{Server: apitest.Start(t, options...)}
	f.connect(t)
	return f
}

func (f *fixture) connect(t *testing.T) {
	t.Helper()
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := inventoryv1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	if f.api, err = client.New(f.Admin(t), client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
}

// declare makes a Signer with a generated CA, and returns its list.
func (f *fixture) declare(t *testing.T, name string) inventoryv1alpha1.RevocationList {
	t.Helper()
	f.create(t, name, v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}})
	return f.listOf(t, "example.com/"+name)
}

func (f *fixture) create(t *testing.T, name string, ca v1alpha1.SignerCA) {
	t.Helper()
	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SignerSpec{
		SignerName: "example.com/" + name, CA: ca,
		Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
		Profile: v1alpha1.SignerProfile{
			Subject: v1alpha1.SubjectProfile{FromRequest: true}, Usages: []string{"digital signature", "server auth"},
			Lifetime: v1alpha1.LifetimeProfile{Maximum: &metav1.Duration{Duration: time.Hour}},
		},
	}}
	if err := f.api.Create(t.Context(), signer); err != nil {
		t.Fatal(err)
	}
}

// listOf waits for the list of a signer's CA.
func (f *fixture) listOf(t *testing.T, signerName string) (found inventoryv1alpha1.RevocationList) {
	t.Helper()
	apitest.Eventually(t, "the CA of "+signerName+" has a list", func() bool {
		var all inventoryv1alpha1.RevocationListList
		if err := f.api.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		n := slices.IndexFunc(all.Items, func(l inventoryv1alpha1.RevocationList) bool { return slices.Contains(l.SignerNames, signerName) })
		if n >= 0 {
			found = all.Items[n]
		}
		return n >= 0
	})
	return found
}

// content returns the bytes of a list, after checking its signature.
func (f *fixture) content(t *testing.T, of inventoryv1alpha1.RevocationList) *x509.RevocationList {
	t.Helper()
	der, err := apitest.Client(t, f.Admin(t)).CoreV1().RESTClient().Get().AbsPath(listsPath, of.Name, "content").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.CheckSignatureFrom(authority(t, of)); err != nil {
		t.Errorf("the list of %s: %v", of.Subject, err)
	}
	return list
}

func authority(t *testing.T, of inventoryv1alpha1.RevocationList) *x509.Certificate {
	t.Helper()
	chain, err := pki.ParseBundle([]byte(of.CACertificates))
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

func get(t *testing.T, f *fixture, name string) (list inventoryv1alpha1.RevocationList) {
	t.Helper()
	if err := f.api.Get(t.Context(), types.NamespacedName{Name: name}, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// revoke records the entries of an act, as the creation of a Revocation does.
func (f *fixture) revoke(t *testing.T, uid string, entries ...revocation.Entry) {
	t.Helper()
	data, err := revocation.Encode(revocation.Act{UID: types.UID(uid), Name: uid, User: "alice"}, entries)
	if err != nil {
		t.Fatal(err)
	}
	f.Store(t, "/registry/inventory.certplane.dev/revoked/"+uid, string(data))
}

func entryOf(ca *x509.Certificate, serial int64, reason pki.Reason) revocation.Entry {
	now := time.Now()
	return revocation.Entry{
		Authority: ca.SubjectKeyId, Serial: big.NewInt(serial).Bytes(), NotAfter: now.Add(time.Hour), Time: now.Truncate(time.Second), Reason: reason,
	}
}

// until waits until a list has a serial number.
func (f *fixture) until(t *testing.T, of inventoryv1alpha1.RevocationList, serial int64) *x509.RevocationList {
	t.Helper()
	var list *x509.RevocationList
	apitest.Eventually(t, fmt.Sprintf("%d is listed", serial), func() bool {
		list = f.content(t, of)
		return slices.ContainsFunc(list.RevokedCertificateEntries, func(e x509.RevocationListEntry) bool { return e.SerialNumber.Int64() == serial })
	})
	return list
}

func TestRevokedIsListed(t *testing.T) {
	f := start(t)
	first := f.declare(t, "web")
	ca := authority(t, first)
	apitest.Eventually(t, "the first list is the current one, and empty", func() bool { // it may be signed again meanwhile
		list := f.content(t, first)
		first = f.listOf(t, "example.com/web")
		return len(list.RevokedCertificateEntries) == 0 && list.Number.Int64() == first.Number && first.Current
	})
	recorded := apitest.StartStopwatch(t)
	f.revoke(t, "act-1", entryOf(ca, 4711, pki.ReasonKeyCompromise), entryOf(ca, 4712, pki.ReasonUnspecified))
	list := f.until(t, first, 4711)
	if took := recorded.Elapsed(); took > 5*time.Second { // the promise is 2 s
		t.Errorf("listed after %v", took)
	}
	if n := len(list.RevokedCertificateEntries); n != 2 {
		t.Errorf("%d entries", n)
	}
	if e := list.RevokedCertificateEntries[0]; e.ReasonCode != 1 || e.RevocationTime.After(list.ThisUpdate) {
		t.Errorf("entry %+v", e)
	}
	if list.Number.Int64() <= first.Number {
		t.Errorf("number %v after %d", list.Number, first.Number)
	}
	if object := get(t, f, first.Name); object.Entries != 2 || object.Number != list.Number.Int64() || object.Bytes != int64(len(list.Raw)) || !slices.Contains(object.SignerNames, "example.com/web") {
		t.Errorf("the object is %+v", object)
	}
	// An act of another CA changes nothing.
	f.revoke(t, "act-2", entryOf(authority(t, f.declare(t, "other")), 4713, pki.ReasonUnspecified))
	f.until(t, f.listOf(t, "example.com/other"), 4713)
	if after := f.content(t, first); after.Number.Cmp(list.Number) != 0 {
		t.Errorf("the list was signed again: number %v after %v", after.Number, list.Number)
	}
	// After a restart the bytes are built again, not signed.
	f.Restart(t)
	f.connect(t)
	f.listOf(t, "example.com/web")
	if after := f.content(t, first); !bytes.Equal(after.Raw, list.Raw) {
		t.Error("after a restart, the list has other bytes")
	}
	f.revoke(t, "act-3", entryOf(ca, 4714, pki.ReasonSuperseded))
	if after := f.until(t, first, 4714); after.Number.Cmp(list.Number) <= 0 || len(after.RevokedCertificateEntries) != 3 {
		t.Errorf("number %v after %v, %d entries", after.Number, list.Number, len(after.RevokedCertificateEntries))
	}
	checkTable(t, f, first)
}

func checkTable(t *testing.T, f *fixture, list inventoryv1alpha1.RevocationList) {
	t.Helper()
	table := apitest.Table(t, f.Admin(t), listsPath)
	if !strings.Contains(table, list.Name) || !strings.Contains(table, list.Subject) {
		t.Errorf("the table is\n%s", table)
	}
	if err := apitest.Client(t, f.Anonymous(t)).CoreV1().RESTClient().Get().AbsPath(listsPath).Do(t.Context()).Error(); err == nil {
		t.Error("a user without a credential can read the objects")
	}
	if err := apitest.Client(t, f.As(t, "somebody")).CoreV1().RESTClient().Get().AbsPath(listsPath, list.Name, "content").Do(t.Context()).Error(); err != nil {
		t.Errorf("a user without rights of his own cannot read a list: %v", err)
	}
	if err := apitest.Client(t, f.As(t, "system:node:n1", "system:nodes")).CoreV1().RESTClient().Get().AbsPath(listsPath).Do(t.Context()).Error(); err != nil {
		t.Errorf("a node cannot read the lists: %v", err)
	}
}

// OpenSSL refuses the revoked certificate and accepts the other one, with lists of the whole
// chain. It does not matter whether certificates name a list.
func TestOpenSSL(t *testing.T) {
	for name, url := range map[string]string{"unnamed": "", "named": "http://crl.example.com"} {
		t.Run(name, func(t *testing.T) { testOpenSSL(t, url) })
	}
}

func testOpenSSL(t *testing.T, url string) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	f := start(t, func(cfg *server.Config) { cfg.Revocation.URL = url })
	api := apitest.Client(t, f.Admin(t))
	issue := func(name string) *x509.Certificate {
		csr := apitest.Create(t, api, apitest.NewCSR(t, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: name}, apitest.NewKey(t)))
		apitest.Decide(t, api, csr, certificatesv1.CertificateApproved)
		cert, err := pki.ParseBundle(apitest.Issued(t, api, csr))
		if err != nil {
			t.Fatal(err)
		}
		return cert[0]
	}
	good, bad := issue("good"), issue("bad")
	if named := len(good.CRLDistributionPoints) > 0; named != (url != "") {
		t.Errorf("the certificate names %v", good.CRLDistributionPoints)
	}
	issuing := f.listOf(t, certificatesv1.KubeAPIServerClientSignerName)
	root := f.listOf(t, "certplane client root CA")
	f.revoke(t, "act", revocation.EntryOf(bad, time.Now(), pki.ReasonKeyCompromise))
	var list *x509.RevocationList
	apitest.Eventually(t, "the certificate is listed", func() bool {
		list = f.content(t, issuing)
		return len(list.RevokedCertificateEntries) == 1
	})
	if ends := f.content(t, root).NextUpdate; !ends.Equal(authority(t, root).NotAfter) {
		t.Errorf("the root's list ends at %v", ends)
	}

	dir := t.TempDir()
	file := func(name string, blocks ...*pem.Block) string {
		var text []byte
		for _, block := range blocks {
			text = append(text, pem.EncodeToMemory(block)...)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	crl := func(l *x509.RevocationList) *pem.Block { return &pem.Block{Type: "X509 CRL", Bytes: l.Raw} }
	cert := func(c *x509.Certificate) *pem.Block { return &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw} }
	trusted := file("root.pem", cert(authority(t, root)))
	between := file("issuing.pem", cert(authority(t, issuing)))
	lists := file("crl.pem", crl(list), crl(f.content(t, root)))
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), openssl, args...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("crl", "-in", file("one.pem", crl(list)), "-CAfile", between, "-noout"); err != nil || !strings.Contains(out, "verify OK") {
		t.Errorf("openssl crl: %v: %s", err, out)
	}
	for _, check := range []string{"-crl_check", "-crl_check_all"} {
		verify := func(c *x509.Certificate) (string, error) {
			return run("verify", check, "-CAfile", trusted, "-untrusted", between, "-CRLfile", lists, file("leaf.pem", cert(c)))
		}
		if out, err := verify(good); err != nil {
			t.Errorf("%s of the good certificate: %s", check, out)
		}
		if out, err := verify(bad); err == nil || !strings.Contains(out, "certificate revoked") {
			t.Errorf("%s of the revoked certificate: %v: %s", check, err, out)
		}
	}
}

func TestPlainHTTP(t *testing.T) {
	address := apitest.FreeAddress(t)
	f := start(t, func(cfg *server.Config) { cfg.Revocation.Listen = address })
	list := f.declare(t, "web")
	der := f.content(t, list).Raw
	etag, modified := fmt.Sprintf(`"%d"`, list.Number), list.ThisUpdate.UTC().Format(http.TimeFormat)
	path := "/" + list.Name + ".crl"
	tests := []struct {
		reason, method, path string
		header, value, body  string
		want                 int
	}{
		{reason: "a list", path: path, want: 200},
		{reason: "its head", method: "HEAD", path: path, want: 200},
		{reason: "known by its tag", path: path, header: "If-None-Match", value: `"1", ` + etag, want: 304},
		{reason: "known by a weak tag", path: path, header: "If-None-Match", value: `W/` + etag, want: 304},
		{reason: "another tag", path: path, header: "If-None-Match", value: `"1"`, want: 200},
		{reason: "known by its time", path: path, header: "If-Modified-Since", value: modified, want: 304},
		{reason: "an earlier time", path: path, header: "If-Modified-Since", value: "Mon, 02 Jan 2006 15:04:05 GMT", want: 200},
		{reason: "an unknown list", path: "/" + hex.EncodeToString(make([]byte, 16)) + ".crl", want: 404},
		{reason: "no name", path: "/.crl", want: 404},
		{reason: "the root", path: "/", want: 404},
		{reason: "the API", path: "/apis", want: 404},
		{reason: "metrics", path: "/metrics", want: 404},
		{reason: "a folder", path: "/x" + path, want: 404},
		{reason: "an encoded name", path: "/%2e%2e" + path, want: 404},
		{reason: "a write", method: "POST", path: path, want: 405},
		{reason: "options", method: "OPTIONS", path: path, want: 405},
		{reason: "a query", path: path + "?a=b", want: 400},
		{reason: "a body", path: path, body: "x", want: 400},
		{reason: "a long path", path: "/" + strings.Repeat("a", 300) + ".crl", want: 414},
		{reason: "a large header", path: path, header: "X-Large", value: strings.Repeat("a", 9<<10), want: 431},
	}
	for _, tc := range tests {
		request, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+address+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		if tc.header != "" {
			request.Header.Set(tc.header, tc.value)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Errorf("%s: %v", tc.reason, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != tc.want || err != nil {
			t.Errorf("%s: code %d, want %d (%v)", tc.reason, response.StatusCode, tc.want, err)
		}
		h := response.Header
		switch {
		case tc.want == 200 && (h.Get("Etag") != etag || h.Get("Last-Modified") != modified || h.Get("Cache-Control") != "public, max-age=300" ||
			h.Get("Content-Type") != "application/pkix-crl" || h.Get("X-Content-Type-Options") != "nosniff" || response.ContentLength != int64(len(der))):
			t.Errorf("%s: headers %v, length %d", tc.reason, h, response.ContentLength)
		case tc.want == 200 && tc.method == "" && !bytes.Equal(body, der):
			t.Errorf("%s: other bytes", tc.reason)
		case tc.want == 404 && (h.Get("Cache-Control") != "public, max-age=60" || len(body) != 9):
			t.Errorf("%s: headers %v, body %q", tc.reason, h, body)
		}
	}
	crawl(t, f, address, list)
	dawdle(t, f, address, path)
}

// crawl checks that nothing but lists is served to everybody: no path of the API, and none
// that is like that of a list.
func crawl(t *testing.T, f *fixture, address string, list inventoryv1alpha1.RevocationList) {
	t.Helper()
	var described struct{ Paths map[string]any }
	data, err := apitest.Client(t, f.Admin(t)).Discovery().RESTClient().Get().AbsPath("/openapi/v2").DoRaw(t.Context())
	if err == nil {
		err = json.Unmarshal(data, &described)
	}
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for path := range described.Paths {
		paths = append(paths, path, path+".crl", "/"+list.Name+path, path+"/"+list.Name+".crl")
	}
	for n := range list.Name { // names that begin or end like that of a list
		paths = append(paths, "/"+list.Name[:n]+".crl", "/"+list.Name[n:], "/"+list.Name[:n]+"/"+list.Name[n:]+".crl", "/"+list.Name+".crl/"+list.Name[n:])
	}
	if len(paths) < 1000 {
		t.Errorf("only %d paths", len(paths))
	}
	for _, path := range paths {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound || string(body) != "not found" || err != nil {
			t.Errorf("%s: code %d, %q", path, response.StatusCode, body)
		}
	}
}

// dawdle checks that 5,000 clients that never finish their requests disturb neither the API nor
// others that want a list.
func dawdle(t *testing.T, f *fixture, address, path string) {
	t.Helper()
	core := apitest.Client(t, f.Admin(t)).CoreV1()
	const connections, perAddress = 5000, 50
	watch := apitest.StartStopwatch(t)
	for n := range connections {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n/perAddress))}}
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Skipf("connecting from %v: %v", dialer.LocalAddr, err) // only Linux has all of 127.0.0.0/8
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\n") // it may be closed for a newer one
		if n%500 > 0 {
			continue
		}
		begin := watch.Elapsed()
		if _, err := core.Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil || watch.Elapsed()-begin > 5*time.Second {
			t.Errorf("with %d slow connections, the API answers after %v: %v", n, watch.Elapsed()-begin, err)
		}
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatalf("with %d slow connections, a list: %v", n, err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusOK {
			t.Errorf("with %d slow connections, a list is answered with %d", n, response.StatusCode)
		}
	}
}

// A Revocation says whether the lists have its certificates. A CA that must not sign lists has
// none.
func TestListedCondition(t *testing.T) {
	f := start(t)
	web := authority(t, f.declare(t, "web"))
	key := apitest.NewKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "No lists"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	unable, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "unable"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: pki.EncodeCertificates(unable), corev1.TLSPrivateKeyKey: keyPEM,
	}}
	if err := f.api.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.create(t, "unable", v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{Name: "unable"}})
	tests := []struct {
		name         string
		ca           *x509.Certificate
		status       metav1.ConditionStatus
		reason, text string
	}{
		{"listed", web, metav1.ConditionTrue, "Listed", ""},
		{"unable", unable, metav1.ConditionFalse, "NoList", "CN=No lists"},
	}
	for n, tc := range tests {
		serial := int64(8000 + n)
		r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: tc.name}, Spec: v1alpha1.RevocationSpec{
			Certificates: []v1alpha1.RevokedCertificate{{SerialNumber: strconv.FormatInt(serial, 16), AuthorityKeyID: hex.EncodeToString(tc.ca.SubjectKeyId)}},
			Reason:       "KeyCompromise",
		}}
		apitest.Eventually(t, "the CA is known", func() bool {
			err = f.api.Create(t.Context(), r)
			return err == nil
		})
		var condition *metav1.Condition
		apitest.Eventually(t, tc.name+" has the condition", func() bool {
			if err := f.api.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
				t.Fatal(err)
			}
			condition = meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RevocationListed)
			return condition != nil && condition.Reason == tc.reason
		})
		if condition.Status != tc.status || !strings.Contains(condition.Message, tc.text) {
			t.Errorf("%s: the condition is %+v", tc.name, condition)
		}
		if tc.status == metav1.ConditionTrue {
			f.until(t, f.listOf(t, "example.com/web"), serial)
		}
	}
}

// Lists are watched, as agents do.
func TestWatch(t *testing.T) {
	f := start(t)
	list := f.declare(t, "web")
	watching, err := client.NewWithWatch(f.Admin(t), client.Options{Scheme: f.api.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var all inventoryv1alpha1.RevocationListList
	if err := watching.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	events, err := watching.Watch(t.Context(), &inventoryv1alpha1.RevocationListList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: all.ResourceVersion, FieldSelector: "metadata.name=" + list.Name}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	f.revoke(t, "act", entryOf(authority(t, list), 1, pki.ReasonUnspecified))
	for event := range events.ResultChan() {
		changed, ok := event.Object.(*inventoryv1alpha1.RevocationList)
		if !ok || changed.Name != list.Name {
			t.Fatalf("event %+v", event)
		}
		if changed.Number > list.Number && changed.Entries == 1 {
			return
		}
	}
	t.Error("the watch ended without the new list")
}

// A ConfigMap that asks for the lists of a Signer has those that are signed last.
func TestConfigMapIsFilled(t *testing.T) {
	f := start(t)
	of := f.declare(t, "web")
	asks := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "crl", Labels: map[string]string{"certplane.dev/revocation-lists": "true"}, Annotations: map[string]string{"certplane.dev/signer": "example.com/web"},
	}}
	if err := f.api.Create(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	f.revoke(t, "act-1", entryOf(authority(t, of), 4711, pki.ReasonKeyCompromise))
	list := f.until(t, of, 4711)
	apitest.Eventually(t, "the list is filled in", func() bool {
		if err := f.api.Get(t.Context(), client.ObjectKeyFromObject(asks), asks); err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode([]byte(asks.Data["crl.pem"]))
		return block != nil && bytes.Equal(block.Bytes, list.Raw)
	})
}

// The CA of a ClusterIssuer has a list. That of an Issuer has none: users of a namespace could
// fill the store.
func TestIssuers(t *testing.T) {
	f := start(t)
	for _, issuer := range []cmv1.GenericIssuer{
		&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}},
		&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "all"}},
	} {
		secret := f.ClientCASecret(t, cmp.Or(issuer.GetNamespace(), "cert-manager"), "ca")
		if err := f.api.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		issuer.GetSpec().CA = &cmv1.CAIssuer{SecretName: "ca"}
		if err := f.api.Create(t.Context(), issuer); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, "the issuer is ready", func() bool {
			if err := f.api.Get(t.Context(), client.ObjectKeyFromObject(issuer), issuer); err != nil {
				t.Fatal(err)
			}
			return len(issuer.GetStatus().Conditions) > 0 && issuer.GetStatus().Conditions[0].Status == "True"
		})
	}
	list := f.listOf(t, "clusterissuers.cert-manager.io/all")
	if slices.ContainsFunc(list.SignerNames, func(name string) bool { return strings.HasPrefix(name, "issuers.") }) {
		t.Errorf("it is of %v", list.SignerNames)
	}
}

// The CA of a ClusterIssuer is replaced, and the server is stopped a moment later: the list of
// the former CA is valid until its end.
func TestFinalListBeforeStop(t *testing.T) {
	f := start(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cert-manager", Name: "replaced"}, Type: corev1.SecretTypeTLS}
	next := func(name string) {
		t.Helper()
		key := apitest.NewKey(t)
		root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, time.Hour*24*90, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		keyPEM, err := pki.EncodePrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		secret.Data = map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(root.Certificate()), corev1.TLSPrivateKeyKey: keyPEM}
	}
	next("first")
	if err := f.api.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	issuer := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "replaced"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "replaced"}}}}
	if err := f.api.Create(t.Context(), issuer); err != nil {
		t.Fatal(err)
	}
	first := f.listOf(t, "clusterissuers.cert-manager.io/replaced")
	next("second")
	if err := f.api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the next CA has a list", func() bool {
		var all inventoryv1alpha1.RevocationListList
		if err := f.api.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all.Items, func(l inventoryv1alpha1.RevocationList) bool { return authority(t, l).Subject.CommonName == "second" })
	})
	// The names of its signers change once the server knows all CAs.
	also := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "also"}, Spec: issuer.Spec}
	if err := f.api.Create(t.Context(), also); err != nil {
		t.Fatal(err)
	}
	f.listOf(t, "clusterissuers.cert-manager.io/also")
	f.Restart(t)
	f.connect(t)
	if list := f.content(t, first); !list.NextUpdate.Equal(authority(t, first).NotAfter) {
		t.Errorf("the list ends on %v, and the CA on %v", list.NextUpdate, authority(t, first).NotAfter)
	}
}
