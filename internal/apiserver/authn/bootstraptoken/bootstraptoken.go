// Package bootstraptoken accepts the tokens with which new nodes request their
// first certificate.
package bootstraptoken

import (
	"context"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	tokens "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/api/bootstrapnode"
)

// Get returns a secret of namespace kube-system by its name.
type Get func(ctx context.Context, name string) (*corev1.Secret, error)

// Authenticator accepts bootstrap tokens.
type Authenticator struct {
	// Get returns the secret of a token.
	Get Get
	// Now returns the current time.
	Now func() time.Time
}

var _ authenticator.Token = Authenticator{}

// AuthenticateToken has no opinion on a token that does not look like a
// bootstrap token. For an invalid bootstrap token it returns no reason, so that
// a client cannot find out which identifiers exist; it logs the reason.
func (a Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if !tokens.IsValidBootstrapToken(token) {
		return nil, false, nil
	}
	id, secretPart, _ := strings.Cut(token, ".")
	secret, err := a.Get(ctx, tokens.BootstrapTokenSecretName(id))
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading a bootstrap token: %w", err)
	}
	groups, err := accept(secret, id, secretPart, a.Now())
	var extra map[string][]string
	if err == nil {
		extra, err = extraOf(secret)
	}
	if err != nil {
		klog.FromContext(ctx).V(3).Info("Refused a bootstrap token", "secret", secret.Name, "reason", err.Error())
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{
		Name:   bootstrapapi.BootstrapUserPrefix + id,
		Groups: groups,
		Extra:  extra,
	}}, true, nil
}

// extraOf returns the extra of the user: the name of the only node that may
// join with the token, if the token is limited to one.
func extraOf(secret *corev1.Secret) (map[string][]string, error) {
	node, limited := secret.Data[bootstrapnode.SecretKey]
	if !limited {
		return nil, nil
	}
	if problems := validation.IsDNS1123Subdomain(string(node)); len(problems) > 0 {
		return nil, fmt.Errorf("%s is not the name of a node: %s", bootstrapnode.SecretKey, problems[0])
	}
	return map[string][]string{bootstrapnode.ExtraKey: {string(node)}}, nil
}

// accept returns the groups of a valid token.
func accept(secret *corev1.Secret, id, secretPart string, now time.Time) (groups []string, err error) {
	stored := secrets.GetData(secret, bootstrapapi.BootstrapTokenSecretKey)
	switch {
	case secret.DeletionTimestamp != nil:
		return nil, fmt.Errorf("the secret is being deleted")
	case secret.Type != bootstrapapi.SecretTypeBootstrapToken:
		return nil, fmt.Errorf("the secret's type is not %s", bootstrapapi.SecretTypeBootstrapToken)
	case subtle.ConstantTimeCompare([]byte(stored), []byte(secretPart)) != 1:
		return nil, fmt.Errorf("%s differs", bootstrapapi.BootstrapTokenSecretKey)
	case secrets.GetData(secret, bootstrapapi.BootstrapTokenIDKey) != id:
		return nil, fmt.Errorf("%s differs", bootstrapapi.BootstrapTokenIDKey)
	case secrets.HasExpired(secret, now):
		return nil, fmt.Errorf("it has expired")
	case secrets.GetData(secret, bootstrapapi.BootstrapTokenUsageAuthentication) != "true":
		return nil, fmt.Errorf("%s is not true", bootstrapapi.BootstrapTokenUsageAuthentication)
	}
	return secrets.GetGroups(secret)
}

// Secrets has the bootstrap tokens that the server knows.
type Secrets struct {
	informers informers.SharedInformerFactory
	// Get is for an Authenticator.
	Get Get
}

// NewSecrets returns a Secrets that reads with client.
func NewSecrets(client kubernetes.Interface) *Secrets {
	shared := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(metav1.NamespaceSystem),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("type", string(bootstrapapi.SecretTypeBootstrapToken)).String()
		}),
	)
	known := shared.Core().V1().Secrets().Lister().Secrets(metav1.NamespaceSystem)
	reads := flowcontrol.NewTokenBucketRateLimiter(readsPerSecond, readsPerSecond)
	return &Secrets{informers: shared, Get: func(ctx context.Context, name string) (*corev1.Secret, error) {
		secret, err := known.Get(name)
		if apierrors.IsNotFound(err) && reads.TryAccept() {
			return client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		}
		return secret, err
	}}
}

// readsPerSecond is how many tokens that are not known yet are looked up in the store. With the
// lookup, a new token works at once, also on a busy server and on other servers than the one
// that stored it. The bound is for clients without credentials, which can send any token.
const readsPerSecond = 10

// Start begins to watch until ctx ends, and returns when all tokens are known.
func (s *Secrets) Start(ctx context.Context) {
	s.informers.StartWithContext(ctx)
	s.informers.WaitForCacheSyncWithContext(ctx)
}
