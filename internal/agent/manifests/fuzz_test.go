package manifests

import "testing"

// FuzzParse reads manifests.
func FuzzParse(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\n---\n{}\n"))
	f.Add([]byte("---\n---\nkind: Pod\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"volumes":[{"name":"x","projected":{"sources":[{"podCertificate":{}}]}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := parse(data)
		if err != nil && len(pods) > 0 {
			t.Errorf("%d pods beside an error: %v", len(pods), err)
		}
	})
}
