package cainject_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/cainject"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

var shared = &apitest.Shared{}

func TestMain(m *testing.M) { apitest.Main(m, shared, quiet) }

// world is a namespace of a server that injects CAs.
type world struct {
	*apitest.Server
	client.Client
	namespace string
}

func newWorld(t *testing.T) world {
	t.Helper()
	return worldOf(t, shared.Start(t))
}

func worldOf(t *testing.T, s *apitest.Server) world {
	t.Helper()
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(s.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return world{s, api, apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t)))}
}

func (w world) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Delete(context.Background(), object) })
}

func newCA(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate()
}

// secret creates a Secret with a CA.
func (w world) secret(t *testing.T, name string, ca []byte, annotations ...string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: pairs(annotations)}, Data: map[string][]byte{"ca.crt": ca},
	}
	w.create(t, secret)
	return secret
}

func (w world) secretNamed(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
}

func encoded(certs ...*x509.Certificate) string {
	return base64.StdEncoding.EncodeToString(pki.EncodeCertificates(certs...))
}

func pairs(texts []string) map[string]string {
	all := map[string]string{}
	for pair := range slices.Chunk(texts, 2) {
		all[pair[0]] = pair[1]
	}
	return all
}

const allowed = "cert-manager.io/allow-direct-injection"

// bundles returns the fields caBundle of an object.
func bundles(object client.Object) (all [][]byte) {
	switch o := object.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range o.Webhooks {
			all = append(all, w.ClientConfig.CABundle)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range o.Webhooks {
			all = append(all, w.ClientConfig.CABundle)
		}
	case *apiextensionsv1.CustomResourceDefinition:
		all = append(all, o.Spec.Conversion.Webhook.ClientConfig.CABundle)
	case *unstructured.Unstructured:
		text, _, _ := unstructured.NestedString(o.Object, "spec", "caBundle")
		all = append(all, []byte(text))
	}
	return all
}

// awaitCAs waits until all fields of an object hold exactly these certificates.
func (w world) awaitCAs(t *testing.T, object client.Object, cas ...*x509.Certificate) {
	t.Helper()
	want := pki.EncodeCertificates(cas...)
	apitest.Eventually(t, object.GetName()+" has the CA", func() bool {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(bundles(object), func(b []byte) bool { return !bytes.Equal(b, want) })
	})
}

// awaitEvent waits for an Event about an object.
func (w world) awaitEvent(t *testing.T, object client.Object, reason string) corev1.Event {
	t.Helper()
	var found corev1.Event
	apitest.Eventually(t, object.GetName()+" has the Event "+reason, func() bool {
		all := &corev1.EventList{}
		if err := w.List(t.Context(), all, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == object.GetUID() && e.Reason == reason
		})
		if i >= 0 {
			found = all.Items[i]
		}
		return i >= 0
	})
	return found
}

func (w world) validating(name string, annotations ...string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	to := admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")}
	behind := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: w.namespace, Name: "hook"}}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name, Annotations: pairs(annotations)},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "one.example.com", ClientConfig: to, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}},
			{Name: "two.example.com", ClientConfig: behind, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}},
		},
	}
}

func (w world) mutating(name string, annotations ...string) *admissionregistrationv1.MutatingWebhookConfiguration {
	out := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: w.validating(name, annotations...).ObjectMeta}
	for _, hook := range w.validating(name).Webhooks {
		out.Webhooks = append(out.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: hook.Name, ClientConfig: hook.ClientConfig, SideEffects: hook.SideEffects, AdmissionReviewVersions: hook.AdmissionReviewVersions,
		})
	}
	return out
}

// definition returns the definition of a kind that a webhook converts.
func (w world) definition(name string, annotations ...string) *apiextensionsv1.CustomResourceDefinition {
	group, open := w.namespace+".example.com", &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name + "s." + group, Annotations: pairs(annotations)},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: name + "s", Kind: "K" + name},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: open}},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			}},
		},
	}
}

// Each kind of targets gets the CA of each kind of sources, in all its fields and under the
// names of cert-manager's cainjector.
func TestTargetsAndSources(t *testing.T) {
	w := newWorld(t)
	ca := newCA(t, "direct")
	w.secret(t, "direct", pki.EncodeCertificates(ca), allowed, "true")
	w.create(t, &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "own"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	w.create(t, &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hook"},
		Spec:       cmv1.CertificateSpec{SecretName: "hook-tls", IsCA: true, CommonName: "hook", IssuerRef: cmmeta.IssuerReference{Name: "own"}},
	})
	issued := &corev1.Secret{}
	apitest.Eventually(t, "the Certificate is issued", func() bool {
		return w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "hook-tls"}, issued) == nil && len(issued.Data["ca.crt"]) > 0
	})
	fromCertificate, err := pki.ParseBundle(issued.Data["ca.crt"])
	if err != nil {
		t.Fatal(err)
	}
	apiCA, err := pki.ParseBundle(w.Admin(t).CAData)
	if err != nil {
		t.Fatal(err)
	}
	for i, from := range []struct {
		annotation, value string
		want              []*x509.Certificate
	}{
		{"cert-manager.io/inject-ca-from-secret", w.namespace + "/direct", []*x509.Certificate{ca}},
		{"cert-manager.io/inject-ca-from", w.namespace + "/hook", fromCertificate},
		{"cert-manager.io/inject-apiserver-ca", "true", apiCA},
	} {
		for kind, object := range map[string]client.Object{
			"ValidatingWebhookConfiguration": w.validating(fmt.Sprint("v", i), from.annotation, from.value),
			"MutatingWebhookConfiguration":   w.mutating(fmt.Sprint("m", i), from.annotation, from.value),
			"CustomResourceDefinition":       w.definition(fmt.Sprint("d", i), from.annotation, from.value),
		} {
			w.create(t, object)
			w.awaitCAs(t, object, from.want...)
			event := w.awaitEvent(t, object, "CAInjected")
			if event.Source.Component != cainject.Component || event.InvolvedObject.Kind != kind {
				t.Errorf("%s: %+v", object.GetName(), event)
			}
			if !slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
				return e.Manager == "cert-manager-cainjector" && e.Operation == metav1.ManagedFieldsOperationApply
			}) {
				t.Errorf("%s: %+v", object.GetName(), object.GetManagedFields())
			}
		}
	}
}

// A new CA is added; the former one stays until it expires.
func TestNewCA(t *testing.T) {
	w := newWorld(t)
	one, two := newCA(t, "one"), newCA(t, "two")
	secret := w.secret(t, "ca", pki.EncodeCertificates(one), allowed, "true")
	object := w.validating("new", "cert-manager.io/inject-ca-from-secret", w.namespace+"/ca")
	w.create(t, object)
	w.awaitCAs(t, object, one)
	secret.Data["ca.crt"] = pki.EncodeCertificates(two)
	if err := w.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.awaitCAs(t, object, one, two)
}

// An Event tells why a target does not get a CA, and the target gets it when that is fixed.
func TestReasons(t *testing.T) {
	w := newWorld(t)
	ca := newCA(t, "ca")
	text := pki.EncodeCertificates(ca)
	w.create(t, &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"},
		Spec:       cmv1.CertificateSpec{SecretName: "web", DNSNames: []string{"web.example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "none"}},
	})
	w.secret(t, "web", text, "cert-manager.io/certificate-name", "other")
	w.secret(t, "closed", text)
	w.secret(t, "forbidden", text, allowed, "false")
	w.secret(t, "empty", nil, allowed, "true")
	w.secret(t, "text", []byte("no certificate"), allowed, "true")
	const direct, certificate, api = "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-ca-from", "cert-manager.io/inject-apiserver-ca"
	for name, tt := range map[string]struct {
		annotations  []string
		reason, text string
	}{
		"late":       {[]string{direct, w.namespace + "/late"}, "CASourceNotFound", "The Secret " + w.namespace + "/late does not exist."},
		"unissued":   {[]string{certificate, w.namespace + "/none"}, "CASourceNotFound", "The Certificate "},
		"owner":      {[]string{certificate, w.namespace + "/web"}, "CASourceNotAllowed", `the annotation cert-manager.io/certificate-name with the value "web"`},
		"closed":     {[]string{direct, w.namespace + "/closed"}, "CASourceNotAllowed", "the annotation " + allowed},
		"forbidden":  {[]string{direct, w.namespace + "/forbidden"}, "CASourceNotAllowed", "the annotation " + allowed},
		"empty":      {[]string{direct, w.namespace + "/empty"}, "CAMissing", "the key ca.crt"},
		"text":       {[]string{direct, w.namespace + "/text"}, "CANotUsable", "cannot be read"},
		"bad":        {[]string{direct, "ca"}, "BadInjection", `the value "ca": it must be NAMESPACE/NAME`},
		"precedence": {[]string{direct, "ca", certificate, w.namespace + "/web", api, "true"}, "BadInjection", direct},
		"second":     {[]string{certificate, "a/b/c", api, "true"}, "BadInjection", certificate},
	} {
		object := w.validating(name, tt.annotations...)
		object.Webhooks[0].ClientConfig.CABundle = pki.EncodeCertificates(newCA(t, "kept"))
		w.create(t, object)
		event := w.awaitEvent(t, object, tt.reason)
		if !strings.Contains(event.Message, tt.text) || event.Type != corev1.EventTypeWarning {
			t.Errorf("%s: %s %q", name, event.Type, event.Message)
		}
		now := object.DeepCopy()
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil || now.ResourceVersion != object.ResourceVersion {
			t.Errorf("%s: it was written: %v", name, err)
		}
	}
	w.secret(t, "late", text, allowed, "true")
	object := w.validating("late")
	apitest.Eventually(t, "the CA is there", func() bool {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(object.Webhooks[0].ClientConfig.CABundle, text) && bytes.Equal(object.Webhooks[1].ClientConfig.CABundle, text)
	})
}

// A kind that the API does not have does not stop the others, and counts from when it is
// there.
func TestLateKind(t *testing.T) {
	w := worldOf(t, apitest.Start(t))
	ca := newCA(t, "ca")
	w.secret(t, "ca", pki.EncodeCertificates(ca), allowed, "true")
	from := []string{"cert-manager.io/inject-ca-from-secret", w.namespace + "/ca"}
	hook := w.validating("hook", from...)
	w.create(t, hook)
	w.awaitCAs(t, hook, ca)

	definition := w.definition("apiservice")
	definition.Name, definition.Spec.Group, definition.Spec.Names.Kind = "apiservices.apiregistration.k8s.io", "apiregistration.k8s.io", "APIService"
	definition.Annotations["api-approved.kubernetes.io"] = "unapproved, for a test"
	definition.Spec.Conversion = nil
	definition.Spec.Versions[0].Schema.OpenAPIV3Schema.XPreserveUnknownFields = ptr.To(true)
	w.create(t, definition)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": "a.example.com"}}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	object.SetName("v1.a.example.com")
	object.SetAnnotations(pairs(from))
	apitest.Eventually(t, "the kind is served", func() bool { return w.Create(t.Context(), object) == nil })
	apitest.Eventually(t, "the APIService has the CA", func() bool {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		return len(bundles(object)[0]) > 0
	})
}
