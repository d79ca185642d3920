package vault

import (
	"context"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
)

// tokenSeconds is how long the tokens of service accounts are valid: the least
// that the API allows.
const tokenSeconds = 600

// issuerOf returns the content of an issuer's spec.
func (b *backend) issuerOf(of cmv1.GenericIssuer) vault.Issuer {
	spec := of.GetSpec().Vault
	_, cluster := of.(*cmv1.ClusterIssuer)
	i := vault.Issuer{
		UID: string(of.GetUID()), Generation: of.GetGeneration(),
		Namespace: of.GetNamespace(), Name: of.GetName(),
		SecretNamespace: certmanager.SecretNamespace(of, b.ClusterResources),
		Server:          spec.Server, Path: spec.Path, VaultNamespace: spec.Namespace, ServerName: spec.ServerName,
		CABundle: spec.CABundle, CABundleRef: keyOf(spec.CABundleSecretRef),
		ClientCertRef: keyOf(spec.ClientCertSecretRef), ClientKeyRef: keyOf(spec.ClientKeySecretRef),
		Loopback: cluster,
	}
	i.Auth = authOf(&spec.Auth)
	return i
}

func authOf(spec *cmv1.VaultAuth) vault.Auth {
	auth := vault.Auth{Token: keyOf(spec.TokenSecretRef)}
	if role := spec.AppRole; role != nil {
		auth.AppRole = &vault.AppRole{Mount: role.Path, RoleID: role.RoleId, SecretID: *keyOf(&role.SecretRef)}
	}
	if by := spec.ClientCertificate; by != nil {
		auth.ClientCertificate = &vault.ClientCertificate{MountPath: by.Path, SecretName: by.SecretName, Role: by.Name}
	}
	if by := spec.Kubernetes; by != nil {
		auth.Kubernetes = &vault.Kubernetes{
			MountPath: by.Path, Role: by.Role, JWT: *keyOf(&by.SecretRef), ServiceAccount: accountOf(by.ServiceAccountRef),
		}
	}
	if by := spec.AWS; by != nil {
		auth.AWS = &vault.AWS{
			MountPath: by.MountPath, Role: by.Role, Region: by.Region, ServiceAccount: accountOf(by.ServiceAccountRef),
			IAMRoleARN: by.IAMRoleARN, HeaderValue: by.VaultHeaderValue,
		}
	}
	return auth
}

func keyOf(ref *cmmeta.SecretKeySelector) *vault.SecretKey {
	if ref == nil {
		return nil
	}
	return &vault.SecretKey{Name: ref.Name, Key: ref.Key}
}

func accountOf(ref *cmv1.ServiceAccountRef) *vault.ServiceAccount {
	if ref == nil {
		return nil
	}
	return &vault.ServiceAccount{Name: ref.Name, Audiences: ref.TokenAudiences}
}

// secretsOf returns the names of all Secrets of an issuer; some may be empty.
func secretsOf(spec *cmv1.VaultIssuer) []string {
	var names []string
	auth := spec.Auth
	for _, ref := range []*cmmeta.SecretKeySelector{spec.CABundleSecretRef, spec.ClientCertSecretRef, spec.ClientKeySecretRef, auth.TokenSecretRef} {
		if ref != nil {
			names = append(names, ref.Name)
		}
	}
	if auth.AppRole != nil {
		names = append(names, auth.AppRole.SecretRef.Name)
	}
	if auth.ClientCertificate != nil {
		names = append(names, auth.ClientCertificate.SecretName)
	}
	if auth.Kubernetes != nil {
		names = append(names, auth.Kubernetes.SecretRef.Name)
	}
	return names
}

// accessOf returns the access to what an issuer refers to, as the controller
// itself.
func (b *backend) accessOf(i vault.Issuer) vault.Access {
	return vault.Access{
		Secret: func(ctx context.Context, name string) (vault.Secret, error) {
			secret := &corev1.Secret{}
			if err := b.Client.Get(ctx, types.NamespacedName{Namespace: i.SecretNamespace, Name: name}, secret); err != nil {
				return vault.Secret{}, err
			}
			return vault.Secret{Data: secret.Data, Version: string(secret.UID) + "/" + secret.ResourceVersion}, nil
		},
		Token: func(ctx context.Context, account string, audiences []string) (string, error) {
			return b.token(ctx, i.SecretNamespace, account, audiences)
		},
	}
}

func (b *backend) token(ctx context.Context, namespace, account string, audiences []string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	err := b.Client.SubResource("token").Create(ctx, of, request)
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("%w: %s", err, roleToGrant(namespace, account))
	}
	return request.Status.Token, err
}
