package admissionwebhook

import "testing"

// FuzzReview reads reviews of clients.
func FuzzReview(f *testing.F) {
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","object":{"kind":"X"},"oldObject":null}}`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		request, refusal := parse(body)
		switch {
		case refusal == nil && (request == nil || request.UID == ""):
			t.Errorf("%+v", request)
		case refusal != nil && refusal.code != 400:
			t.Errorf("%+v", refusal)
		}
	})
}
