package authn

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
	"github.com/certplane/certplane/internal/pki"
)

// podCertificates accepts client certificates. A certificate that names its pod
// (KEP-4317) authenticates as the pod's service account, as a token of the pod
// does: while the pod and the account exist.
type podCertificates struct {
	certificates authenticator.Request
	accounts     serviceaccount.Authenticator
}

// AuthenticateRequest implements authenticator.Request.
func (p podCertificates) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := p.certificates.AuthenticateRequest(req)
	if !ok || err != nil {
		return response, ok, err
	}
	pod, err := pki.PodIdentityOf(req.TLS.PeerCertificates[0])
	if err != nil || pod == nil {
		return response, err == nil, err
	}
	who, err := p.accounts.Bound(req.Context(), bindingOf(pod), firstOf(response.User.GetExtra()[user.CredentialIDKey]))
	if err != nil {
		return nil, false, fmt.Errorf("accepting the client certificate of the pod %s/%s: %w", pod.Namespace, pod.PodName, err)
	}
	if who.GetName() != response.User.GetName() {
		return nil, false, fmt.Errorf("client certificate is of the pod %s/%s and of the user %q, which is not its service account", pod.Namespace, pod.PodName, response.User.GetName())
	}
	response.User = who
	return response, true, nil
}

func bindingOf(pod *pki.PodIdentity) serviceaccount.Binding {
	return serviceaccount.Binding{
		Namespace: pod.Namespace,
		Account:   serviceaccount.Ref{Name: pod.ServiceAccountName, UID: types.UID(pod.ServiceAccountUID)},
		Pod:       &serviceaccount.Ref{Name: pod.PodName, UID: types.UID(pod.PodUID)},
		Node:      &serviceaccount.Ref{Name: pod.NodeName, UID: types.UID(pod.NodeUID)},
	}
}

func firstOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
