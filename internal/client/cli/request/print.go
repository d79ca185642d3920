package request

import (
	"encoding/json"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// print writes the request as a manifest, YAML unless JSON is requested.
func (r *run) print(csr *certificatesv1.CertificateSigningRequest) error {
	object, err := manifestOf(csr)
	if err != nil {
		return err
	}
	encode := yaml.Marshal
	if r.Output == "json" {
		encode = func(v any) ([]byte, error) {
			data, err := json.MarshalIndent(v, "", "  ")
			return append(data, '\n'), err
		}
	}
	data, err := encode(object)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	_, err = r.Stdout.Write(data)
	return err
}

// manifestOf returns the manifest of a request without an empty status and the server's
// metadata.
func manifestOf(csr *certificatesv1.CertificateSigningRequest) (map[string]any, error) {
	csr = csr.DeepCopy()
	csr.APIVersion, csr.Kind = certificatesv1.SchemeGroupVersion.String(), "CertificateSigningRequest"
	csr.ManagedFields = nil
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(csr)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	if len(csr.Status.Conditions) == 0 && len(csr.Status.Certificate) == 0 {
		delete(object, "status")
	}
	return object, nil
}
