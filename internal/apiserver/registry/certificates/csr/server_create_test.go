package csr_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
)

func TestServerCreate(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("requester", w.testRequester)
	t.Run("certificate user", w.testCertificateRequester)
	t.Run("forged status", w.testForgedStatus)
	t.Run("metadata", w.testCreateMetadata)
	t.Run("names", w.testNames)
	t.Run("bad metadata", w.testBadMetadata)
	t.Run("generated names", w.testGeneratedNames)
	t.Run("taken name", w.testTakenName)
	t.Run("PUT", w.testPutDoesNotCreate)
}

// The requester is the authenticated or impersonated user, whatever the object
// contains.
func (w world) testRequester(t *testing.T) {
	w.Grant(t, "alice", apitest.Allow("create", "certificatesigningrequests"))
	w.Grant(t, "system:anonymous", apitest.Allow("create", "certificatesigningrequests"))
	forged := func(c *csr) {
		c.Spec.Username, c.Spec.UID, c.Spec.Groups = "root", "0", []string{"system:masters"}
		c.Spec.Extra = map[string]certificatesv1.ExtraValue{"scopes": {"all"}}
	}
	for _, tc := range []struct {
		name string
		as   rest.ImpersonationConfig
		sent edit
		want certificatesv1.CertificateSigningRequestSpec
	}{
		{"user-with-uid", rest.ImpersonationConfig{UserName: "alice", UID: "1234"}, func(*csr) {},
			certificatesv1.CertificateSigningRequestSpec{Username: "alice", UID: "1234", Groups: []string{"system:authenticated"}}},
		{"forger", rest.ImpersonationConfig{UserName: "alice"}, forged,
			certificatesv1.CertificateSigningRequestSpec{Username: "alice", Groups: []string{"system:authenticated"}}},
		{"user-with-groups-and-extra", rest.ImpersonationConfig{UserName: "alice", Groups: []string{"team"}, Extra: map[string][]string{"id": {"1", "2"}}}, forged,
			certificatesv1.CertificateSigningRequestSpec{Username: "alice", Groups: []string{"team", "system:authenticated"},
				Extra: map[string]certificatesv1.ExtraValue{"id": {"1", "2"}}}},
		{"anonymous", rest.ImpersonationConfig{UserName: "system:anonymous"}, forged,
			certificatesv1.CertificateSigningRequestSpec{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := w.Admin(t)
			cfg.Impersonate = tc.as
			sent := newCSR(t, tc.name, tc.sent)
			want := tc.want
			want.Request, want.SignerName, want.Usages = sent.Spec.Request, sent.Spec.SignerName, sent.Spec.Usages

			got, err := apitest.Client(t, cfg).CertificatesV1().CertificateSigningRequests().Create(bounded(t), sent, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("answered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, w.get(t, tc.name).Spec); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// The library adds the certificate with which the requester authenticated.
func (w world) testCertificateRequester(t *testing.T) {
	got := w.create(t, "by-certificate").Spec
	const credential = "authentication.kubernetes.io/credential-id"
	if values := got.Extra[credential]; len(got.Extra) != 1 || len(values) != 1 || !strings.HasPrefix(values[0], "X509SHA256=") {
		t.Errorf("extra is %v", got.Extra)
	}
	if diff := cmp.Diff([]string{"system:masters", "system:authenticated"}, got.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// A request cannot be created as approved or issued. Errors in a dropped status
// do not matter.
func (w world) testForgedStatus(t *testing.T) {
	for name, forged := range map[string]edit{
		"approved": conditions("Approved"),
		"nonsense": conditions("Approved", "Denied", "", "Approved"),
		"issued":   certificate(block("CERTIFICATE", newCertificate(t, 1))),
		"junk":     certificate([]byte("junk")),
	} {
		sent := newCSR(t, name, forged, expires(600))
		sent.APIVersion, sent.Kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
		body, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		created := w.call(t, call{method: http.MethodPost, path: v1Path, contentType: "application/json", body: body})
		if created.code != http.StatusCreated {
			t.Errorf("%s: %d %s", name, created.code, created.body)
			continue
		}
		var got struct {
			Spec   certificatesv1.CertificateSigningRequestSpec
			Status json.RawMessage
		}
		if err := json.Unmarshal(created.body, &got); err != nil {
			t.Fatal(err)
		}
		if string(got.Status) != "{}" {
			t.Errorf("%s: status is %s", name, got.Status)
		}
		if got.Spec.ExpirationSeconds == nil || *got.Spec.ExpirationSeconds != 600 {
			t.Errorf("%s: expirationSeconds is lost", name)
		}
	}
}

// The metadata that clients may set and that only the server sets.
func (w world) testCreateMetadata(t *testing.T) {
	sent := newCSR(t, "metadata", func(c *csr) {
		c.Labels, c.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		c.Finalizers = []string{"example.com/hold", "kubernetes", "orphan"}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
		c.Generation = 7
	})
	want := sent.ObjectMeta
	forged := metav1.Unix(1, 0)
	sent.UID, sent.CreationTimestamp = "forged", forged
	sent.SelfLink = "forged" //lint:ignore SA1019 old clients still send it
	sent.DeletionTimestamp, sent.DeletionGracePeriodSeconds = &forged, new(int64)
	sent.Namespace = "somewhere"

	created, err := w.csrs().Create(bounded(t), sent, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := created.ObjectMeta
	if got.UID == "" || got.UID == "forged" || !got.CreationTimestamp.After(forged.Time) || got.ResourceVersion == "" {
		t.Errorf("the server did not set its own metadata: %v", got)
	}
	got.UID, got.CreationTimestamp, got.ResourceVersion, got.ManagedFields = "", metav1.Time{}, "", nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if got := w.create(t, "plain", finalizers("foregroundDeletion")).Generation; got != 0 {
		t.Errorf("generation of a request without one is %d", got)
	}
}

// Every name that fits into a path is allowed.
func (w world) testNames(t *testing.T) {
	for _, name := range []string{
		"Upper:Case", "with space", "ünïcödé", "...", "a..b", "-", "under_score", "a?b#c", strings.Repeat("x", 400),
	} {
		obj := w.create(t, name)
		if obj.Name != name || w.get(t, name).UID != obj.UID {
			t.Errorf("%q was not found again", name)
		}
		for _, via := range endpoints() {
			obj = w.mustPut(t, via, changed(obj, labels("via", via.String())))
		}
		if err := w.csrs().Delete(bounded(t), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting %q: %v", name, err)
		}
	}
}

func (w world) testBadMetadata(t *testing.T) {
	const notQualified = `name is neither a standard finalizer name nor is it fully qualified`
	name := func(name string) edit { return func(c *csr) { c.Name = name } }
	for _, tc := range []struct {
		reason string
		edit   edit
		want   string
	}{
		{"no name", name(""), invalid("", `metadata.name: Required value: name or generateName is required`)},
		{"dot", name("."), invalid(".", `metadata.name: Invalid value: ".": may not be '.'`)},
		{"dots", name(".."), invalid("..", `metadata.name: Invalid value: "..": may not be '..'`)},
		{"slash", name("a/b"), invalid("a/b", `metadata.name: Invalid value: "a/b": may not contain '/'`)},
		{"percent", name("a%b"), invalid("a%b", `metadata.name: Invalid value: "a%b": may not contain '%'`)},
		{"both", name("/%"), invalid("/%", `[metadata.name: Invalid value: "/%": may not contain '/', metadata.name: Invalid value: "/%": may not contain '%']`)},
		{"a bad name is told only when all else is fine", func(c *csr) { c.Name, c.Spec.Usages = "..", nil },
			invalid("..", `spec.usages: Required value`)},
		{"negative generation", func(c *csr) { c.Generation = -1 },
			invalid("test", `metadata.generation: Invalid value: -1: must be greater than or equal to 0`)},
		{"unqualified finalizer", finalizers("example.com/hold", "hold"),
			invalid("test", `metadata.finalizers[1]: Invalid value: "hold": `+notQualified)},
		{"label", labels("a b", "c"),
			invalid("test", `metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`)},
		{"half an owner", func(c *csr) { c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", UID: "u"}} },
			invalid("test", `metadata.ownerReferences[0].name: Required value: must not be empty`)},
		{"annotations that are too large", func(c *csr) { c.Annotations = map[string]string{"a": strings.Repeat("x", 256<<10)} },
			invalid("test", `metadata.annotations: Too long: may not be more than 262144 bytes`)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := w.csrs().Create(bounded(t), newCSR(t, "test", tc.edit), metav1.CreateOptions{})
			checkError(t, err, tc.want)
		})
	}
}

func (w world) testGeneratedNames(t *testing.T) {
	base := func(base string) edit { return func(c *csr) { c.Name, c.GenerateName = "", base } }
	for _, tc := range []struct {
		base string
		kept string // the prefix of the names
	}{
		{"Req-", "Req-"},
		{strings.Repeat("x", 100), strings.Repeat("x", 58)},
	} {
		first, second := w.create(t, "", base(tc.base)), w.create(t, "", base(tc.base))
		if first.Name == second.Name {
			t.Errorf("both are called %q", first.Name)
		}
		if !strings.HasPrefix(first.Name, tc.kept) || len(first.Name) != len(tc.kept)+5 {
			t.Errorf("%q became %q", tc.base, first.Name)
		}
	}
	_, err := w.csrs().Create(bounded(t), newCSR(t, "", base("a/")), metav1.CreateOptions{})
	causes := causesOf(t, err)
	want := wrong("metadata.generateName", `"a/"`, "may not contain '/'")
	if len(causes) != 2 || causes[0] != want || causes[1].Field != "metadata.name" {
		t.Errorf("a bad base: %v", err)
	}
}

func (w world) testTakenName(t *testing.T) {
	first := w.create(t, "taken")
	_, err := w.csrs().Create(bounded(t), newCSR(t, "taken", labels("a", "b")), metav1.CreateOptions{})
	checkError(t, err, `certificatesigningrequests.certificates.k8s.io "taken" already exists`)
	if got := statusOf(t, err); got.Code != http.StatusConflict || got.Reason != metav1.StatusReasonAlreadyExists {
		t.Errorf("got %d %s", got.Code, got.Reason)
	}
	if diff := cmp.Diff(first, w.get(t, "taken")); diff != "" {
		t.Errorf("the first request changed (-want +got):\n%s", diff)
	}
}

func (w world) testPutDoesNotCreate(t *testing.T) {
	for _, via := range endpoints() {
		_, err := put(t, w.admin, via, newCSR(t, "absent"))
		checkError(t, err, `certificatesigningrequests.certificates.k8s.io "absent" not found`)
		if got := statusOf(t, err).Code; got != http.StatusNotFound {
			t.Errorf("PUT via %s: code %d", via, got)
		}
	}
}
