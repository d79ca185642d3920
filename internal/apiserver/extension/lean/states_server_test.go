package lean_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

// testStored: both store the same, byte for byte, and read what servers stored
// that knew no better.
func (w *world) testStored(t *testing.T, lean, library *twin) {
	all := []call{
		post("ok create what is stored", with("stored", spec+`,"isCA":false,"duration":"90m","commonName":"a<b"`, `"labels":{"b":"1","a":"2"}`, "")),
		put("ok its status", "stored/status", with("stored", spec, `"resourceVersion":"VERSION"`, `{"conditions":[`+ready+`]}`)),
	}
	w.compare(t, lean, library, all)
	key := func(group, name string) string { return "/registry/" + group + "/certificates/default/" + name }
	if got, want := mask(w.Stored(t, key(leanGroup, "stored"))), mask(w.Stored(t, key(libraryGroup, "stored"))); got != want {
		t.Errorf("stored is\n%s\nwant, as by the library\n%s", got, want)
	}
	old := `{"kind":"Certificate","apiVersion":"GROUP/v1","metadata":{"name":"old","namespace":"default","uid":"u","labels":{"a":1},"finalizers":["x.example.com/y"]},
	"spec":{"surprise":1,"secretName":"web","usages":null,"issuerRef":{"name":"ca"}},"status":{"revision":1,"surprise":2},"rest":{}}`
	for _, group := range []string{leanGroup, libraryGroup} {
		w.Store(t, key(group, "old"), strings.ReplaceAll(old, "GROUP", group))
	}
	w.compare(t, lean, library, []call{
		{name: "ok get something old", path: certificates + "/old"},
		{name: "ok list something old", path: certificates},
		patch("ok change something old", "old", mergePatch, `{"spec":{"secretName":"new"}}`),
		patch("ok remove its finalizer", "old", mergePatch, `{"metadata":{"finalizers":null}}`),
	})
	if got, want := mask(w.Stored(t, key(leanGroup, "old"))), mask(w.Stored(t, key(libraryGroup, "old"))); got != want {
		t.Errorf("changed, stored is\n%s\nwant, as by the library\n%s", got, want)
	}
}

// testWebhook: webhooks see whole objects, and what they add is treated like what
// clients send.
func (w *world) testWebhook(t *testing.T, lean, library *twin) {
	url, ca := apitest.Webhook(t, http.HandlerFunc(addFields))
	admin := apitest.Client(t, w.admin).AdmissionregistrationV1().MutatingWebhookConfigurations()
	none := admissionregistrationv1.SideEffectClassNone
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "fields"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name: "fields.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{leanGroup, libraryGroup}, APIVersions: []string{"*"}, Resources: []string{"certificates", "certificates/status"}},
		}},
	}}}
	if _, err := admin.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Delete(context.Background(), config.Name, metav1.DeleteOptions{}) })
	for _, one := range []*twin{lean, library} {
		apitest.Eventually(t, "the webhook is asked", func() bool {
			return strings.Contains(one.say(t, post("", crt("try", spec), "?dryRun=All")).body, "seen-managed")
		})
	}
	w.compare(t, lean, library, []call{
		post("ok create with a webhook", crt("hook", spec)),
		put("ok update with a webhook", "hook", with("hook", spec+`,"isCA":true`, `"resourceVersion":"VERSION"`, "")),
		put("ok status with a webhook", "hook/status", with("hook", spec, `"resourceVersion":"VERSION"`, `{"revision":1}`)),
		patch("ok apply with a webhook", "hook", applyPatch, crt("hook", spec), "?fieldManager=one&force=true"),
		post("refused: the webhook", crt("refuse", spec)),
		{name: "ok get what the webhook has changed", path: certificates + "/hook"},
	})
}

// addFields is a webhook that adds fields, and says in a label whether it has seen
// managed fields.
func addFields(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var object struct{ Metadata metav1.ObjectMeta }
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := json.Unmarshal(review.Request.Object.Raw, &object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	label := "seen-nothing"
	if len(object.Metadata.ManagedFields) > 0 {
		label = "seen-managed"
	}
	patch, _ := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/labels", "value": map[string]string{label: ""}},
		{"op": "add", "path": "/spec/commonName", "value": "hooked"},
		{"op": "add", "path": "/spec/surprise", "value": 1},
	})
	jsonPatch := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: review.Request.Name != "refuse", Patch: patch, PatchType: &jsonPatch,
		Result: &metav1.Status{Message: "no"},
	}
	json.NewEncoder(w).Encode(review)
}

// testDefinition: a definition that somebody has replaced is obeyed, watches end as
// the library ends them, and what is not simple is served by the library.
func (w *world) testDefinition(t *testing.T, lean, library *twin) {
	ended := make(chan string, 1)
	watch := strings.ReplaceAll(certificates, "GROUP", leanGroup) + "?watch=true&timeoutSeconds=25"
	go func() { ended <- w.send(t, call{path: watch}).body }()

	w.redefine(t, "certificates", func(v *apiextensionsv1.CustomResourceDefinition) {
		spec := v.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["surprise"] = apiextensionsv1.JSONSchemaProps{Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("7")}}
	})
	for _, one := range []*twin{lean, library} {
		apitest.Eventually(t, "the new field is served", func() bool {
			return strings.Contains(one.say(t, call{path: certificates + "/stored"}).body, `"surprise":7`)
		})
	}
	w.compare(t, lean, library, []call{
		post("ok create with the new field", crt("newer", spec+`,"surprise":1`)),
		{name: "ok list with the new field", path: certificates},
	})
	<-ended

	w.redefine(t, "certificates", func(crd *apiextensionsv1.CustomResourceDefinition) {
		second := *crd.Spec.Versions[0].DeepCopy()
		second.Name, second.Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, second)
	})
	for _, one := range []*twin{lean, library} {
		apitest.Eventually(t, "the second version is served", func() bool {
			return one.say(t, call{path: strings.Replace(certificates, "v1", "v2", 1)}).code == http.StatusOK
		})
	}
	w.compare(t, lean, library, []call{
		{name: "ok get in the second version", path: strings.Replace(certificates, "v1", "v2", 1) + "/newer"},
		{name: "ok get in the first version", path: certificates + "/newer"},
		patch("ok change with two versions", "newer", mergePatch, `{"spec":{"secretName":"two"}}`),
	})

	definitions := w.crds.ApiextensionsV1().CustomResourceDefinitions()
	for _, group := range []string{leanGroup, libraryGroup} {
		if err := definitions.Delete(t.Context(), "clusterissuers."+group, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, "the definition is gone with its objects", func() bool {
			_, err := definitions.Get(t.Context(), "clusterissuers."+group, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	for _, one := range []*twin{lean, library} {
		apitest.Eventually(t, "the kind is gone", func() bool {
			return one.say(t, call{path: "/apis/GROUP/v1/clusterissuers"}).code == http.StatusNotFound
		})
	}
}

// redefine changes a definition in both groups.
func (w *world) redefine(t *testing.T, plural string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	definitions := w.crds.ApiextensionsV1().CustomResourceDefinitions()
	for _, group := range []string{leanGroup, libraryGroup} {
		apitest.Eventually(t, plural+"."+group+" is changed", func() bool {
			crd, err := definitions.Get(t.Context(), plural+"."+group, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			change(crd)
			_, err = definitions.Update(t.Context(), crd, metav1.UpdateOptions{})
			if err != nil && !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
}
