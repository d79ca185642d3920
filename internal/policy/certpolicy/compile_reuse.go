package certpolicy

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// keyReuse compiles the condition on keys that earlier requests have.
func (c termCompiler) keyReuse(path *field.Path, reuse v1alpha1.KeyReuse) {
	switch reuse {
	case "", v1alpha1.KeyReuseAllow:
		return
	case v1alpha1.KeyReuseRefuse:
		c.add(refuseReuse)
	case v1alpha1.KeyReuseRequire:
		c.add(requireReuse)
		if kinds := c.policy.spec.Match.Kinds; len(kinds) == 0 || slices.Contains(kinds, v1alpha1.PodCertificateRequests) {
			c.required(field.NewPath("spec", "match", "kinds"), "must be given without PodCertificateRequest: kubelets make a new key for each request")
		}
	default:
		oneOf(c.checker, path, reuse, v1alpha1.KeyReuseAllow, v1alpha1.KeyReuseRefuse, v1alpha1.KeyReuseRequire)
	}
	c.policy.needs.Keys = true
}

// storedKeys returns the stored requests that the key is compared with, or what is
// open.
func storedKeys(e *evaluation) (*v1alpha1.StoredKeys, finding) {
	f := finding{at: "certificate.keys.reuse"}
	if e.in.Request.IsPlanned() || e.in.NamesOnly {
		f.open = "the key"
		return nil, f
	}
	keys := e.in.Facts.Keys
	if !keys.Known || keys.Value == nil {
		f.open = "the keys of the stored requests"
		return nil, f
	}
	f.field, f.value = "key", pki.KeyFingerprint(e.content.Key)
	return keys.Value, f
}

func refuseReuse(e *evaluation) []finding {
	keys, f := storedKeys(e)
	switch {
	case keys == nil:
		return []finding{f}
	case keys.Same == nil:
		return nil
	}
	f.reason, f.would = ReasonKeyReused, []string{"a new key"}
	f.message = fmt.Sprintf("the key was used by the %s, and the policy permits only new keys", storedName(keys.Same))
	return []finding{f}
}

func requireReuse(e *evaluation) []finding {
	keys, f := storedKeys(e)
	switch {
	case keys == nil:
		return []finding{f}
	case keys.Previous == nil || keys.Previous.KeyFingerprint == f.value:
		return nil
	}
	f.reason, f.would = ReasonKeyChanged, []string{"the key with the SHA-256 fingerprint " + keys.Previous.KeyFingerprint}
	f.message = fmt.Sprintf("the key differs from that in the owner's previous request, the %s", storedName(keys.Previous))
	return []finding{f}
}

func storedName(r *v1alpha1.StoredRequest) string {
	return string(r.Kind) + " " + request.FullName(r.Namespace, r.Name)
}
