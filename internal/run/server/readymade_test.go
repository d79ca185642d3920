package server_test

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/install"
	"github.com/certplane/certplane/internal/run/server"
)

// A server that says that it is ready has its ready-made Signers, also if these come late.
func TestAnnouncementWaitsForSigners(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.PodSigners.Install = []string{install.ServerCertificates} })
	var admits atomic.Bool
	url, ca := apitest.Webhook(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case <-time.After(3 * time.Second): // longer than the rest of a start
		case <-r.Context().Done():
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: admits.Load()}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "slow.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"certplane.dev"}, APIVersions: []string{"*"}, Resources: []string{"signers"}},
			}},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
	admin := apitest.Client(t, s.Admin(t))
	if _, err := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/certplane.dev/v1alpha1/signers/" + install.ServerCertificates
	if err := admin.Discovery().RESTClient().Delete().AbsPath(path).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	s.Stop(t) // until now, nothing is admitted
	admits.Store(true)
	s.Restart(t)
	admin = apitest.Client(t, s.Admin(t))
	if err := admin.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).Error(); err != nil {
		t.Errorf("the server is ready: %v", err)
	}
}
