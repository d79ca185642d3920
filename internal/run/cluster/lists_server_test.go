package cluster_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/publishlists"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/server"
)

// stored returns the ConfigMap with the lists, without content if there is none.
func (w world) stored(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	object, err := w.admin.CoreV1().ConfigMaps("certplane-system").Get(t.Context(), rights.RevocationLists, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return object
}

// listBy waits for a list of a CA that a condition holds for, and returns it and its ID.
func (w world) listBy(t *testing.T, ca *x509.Certificate, what string, holds func(*x509.RevocationList) bool) (found *x509.RevocationList, id string) {
	t.Helper()
	apitest.Eventually(t, what, func() bool {
		for key, der := range w.stored(t).BinaryData {
			list, err := x509.ParseRevocationList(der)
			if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			if list.CheckSignatureFrom(ca) == nil && holds(list) {
				found, id = list, strings.TrimSuffix(key, ".crl")
				return true
			}
		}
		return false
	})
	return found, id
}

func lists(serial *big.Int) func(*x509.RevocationList) bool {
	return func(list *x509.RevocationList) bool {
		return slices.ContainsFunc(list.RevokedCertificateEntries, func(e x509.RevocationListEntry) bool { return e.SerialNumber.Cmp(serial) == 0 })
	}
}

// revoke issues a certificate and revokes it.
func (w world) revoke(t *testing.T, api client.Client, name string) *x509.Certificate {
	t.Helper()
	cert, err := pki.ParseFirst(w.Login(t, name).CertData)
	if err != nil {
		t.Fatal(err)
	}
	revoke(t, api, name, cert)
	return cert
}

func revoke(t *testing.T, api client.Client, name string, cert *x509.Certificate) *v1alpha1.Revocation {
	t.Helper()
	revocation := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RevocationSpec{
		Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))}}, Reason: "KeyCompromise",
	}}
	if err := api.Create(t.Context(), revocation, client.FieldOwner("test")); err != nil {
		t.Fatal(err)
	}
	return revocation
}

func untilListed(t *testing.T, api client.Client, revocation *v1alpha1.Revocation) {
	t.Helper()
	apitest.Eventually(t, "the Revocation is listed", func() bool {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(revocation), revocation); err != nil {
			t.Fatal(err)
		}
		return meta.IsStatusConditionTrue(revocation.Status.Conditions, v1alpha1.RevocationListed)
	})
}

// withLists starts a server, and returns the configuration of a process that signs and serves
// lists.
func withLists(t *testing.T) (w world, configured func() cluster.Config) {
	t.Helper()
	choice := []string{"*", "fillconfigmaps"}
	w = startInWith(t, apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} }), func(c *cluster.Config) {
		c.Controllers, c.Webhook.Serve = choice, "Never"
	})
	return w, func() cluster.Config {
		cfg := w.config(t)
		cfg.Controllers, cfg.Revocation.Listen = choice, apitest.FreeAddress(t)
		return cfg
	}
}

// fetch returns a list that a process serves; nil if it serves none.
func fetch(t *testing.T, at cluster.Config, id string) []byte {
	t.Helper()
	response, err := http.Get("http://" + at.Revocation.Listen + "/" + id + ".crl")
	if err != nil {
		return nil // it does not listen yet
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// The leader signs the lists of its CAs, all processes serve them, and another leader goes on
// with them.
func TestLists(t *testing.T) {
	w, configured := withLists(t)
	first, second := configured(), configured()
	leader := run(t, first)
	ca, api := w.ClientCA(t).Certificate(), connect(t, w.Admin(t))
	before, id := w.listBy(t, ca, "the CA has a list", func(*x509.RevocationList) bool { return true })
	run(t, second)

	alice := w.revoke(t, api, "alice")
	list, _ := w.listBy(t, ca, "the list has the certificate", lists(alice.SerialNumber))
	if list.Number.Cmp(before.Number) <= 0 || list.RevokedCertificateEntries[0].ReasonCode != 1 {
		t.Errorf("after number %v the list is %v, %+v", before.Number, list.Number, list.RevokedCertificateEntries)
	}
	for _, at := range []cluster.Config{first, second} {
		apitest.Eventually(t, "the list is served", func() bool { return bytes.Equal(fetch(t, at, id), list.Raw) })
	}

	leader.stop()
	<-leader.ended
	third := configured()
	run(t, third)
	bob := w.revoke(t, api, "bob")
	after, _ := w.listBy(t, ca, "the next list has both", lists(bob.SerialNumber))
	if !lists(alice.SerialNumber)(after) || after.Number.Cmp(list.Number) <= 0 {
		t.Errorf("number %v after %v has %+v", after.Number, list.Number, after.RevokedCertificateEntries)
	}
	apitest.Eventually(t, "a new process serves it", func() bool { return bytes.Equal(fetch(t, third, id), after.Raw) })
}

// ConfigMaps that ask for the lists of a Signer have them, and keep what else they have.
func TestListsInConfigMaps(t *testing.T) {
	w, configured := withLists(t)
	api := connect(t, w.Admin(t))
	run(t, configured())
	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1alpha1.SignerSpec{
		SignerName: "example.com/web", CA: v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
		Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
		Profile: v1alpha1.SignerProfile{
			Subject: v1alpha1.SubjectProfile{FromRequest: true}, Usages: []string{"digital signature", "server auth"},
			Lifetime: v1alpha1.LifetimeProfile{Maximum: &metav1.Duration{Duration: time.Hour}},
		},
	}}
	if err := api.Create(t.Context(), signer); err != nil {
		t.Fatal(err)
	}
	maps := w.admin.CoreV1().ConfigMaps("default")
	for name, of := range map[string]string{"web": "example.com/web", "nothing": "example.com/nothing"} {
		asks := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{publishlists.FillLabel: "true"}, Annotations: map[string]string{publishlists.SignerAnnotation: of}},
			Data:       map[string]string{"nginx.conf": "..."},
		}
		if _, err := maps.Create(t.Context(), asks, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	filled := func() *corev1.ConfigMap {
		object, err := maps.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	apitest.Eventually(t, "the list is filled in", func() bool { return filled().Data[publishlists.FileKey] != "" })
	object := filled()
	block, rest := pem.Decode([]byte(object.Data[publishlists.FileKey]))
	if block == nil || block.Type != "X509 CRL" || len(rest) > 0 || object.Data["nginx.conf"] != "..." {
		t.Fatalf("it has %q", object.Data)
	}
	list, err := x509.ParseRevocationList(block.Bytes)
	if err != nil || object.Annotations[publishlists.DateAnnotation] != list.ThisUpdate.UTC().Format(time.RFC3339) {
		t.Errorf("%v, annotations %v", err, object.Annotations)
	}
	// A revocation changes it.
	request := apitest.NewCSR(t, "web", "example.com/web", pki.Subject{CommonName: "web"}, apitest.NewKey(t))
	request.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	issued := apitest.Issued(t, w.admin, apitest.Decide(t, w.admin, apitest.Create(t, w.admin, request), certificatesv1.CertificateApproved))
	cert, err := pki.ParseFirst(issued)
	if err != nil {
		t.Fatal(err)
	}
	revocation := revoke(t, api, "web", cert)
	apitest.Eventually(t, "the filled list has the certificate", func() bool {
		block, _ := pem.Decode([]byte(filled().Data[publishlists.FileKey]))
		list, err = x509.ParseRevocationList(block.Bytes)
		return err == nil && lists(cert.SerialNumber)(list)
	})
	// The API of this test does not have the key of the CA, so that nobody else reports this.
	untilListed(t, api, revocation)
	// It is kept so.
	object = filled()
	object.Data[publishlists.FileKey] = "x"
	if _, err := maps.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "it is filled again", func() bool {
		block, _ := pem.Decode([]byte(filled().Data[publishlists.FileKey]))
		return block != nil && bytes.Equal(block.Bytes, list.Raw)
	})
	apitest.Eventually(t, "an Event says what is not filled", func() bool {
		events, err := w.admin.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Regarding.Name == "nothing" && e.Reason == "NoList" })
	})
}
