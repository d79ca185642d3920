package vault

import (
	"context"

	"github.com/certplane/certplane/internal/issuing/signer/outbound"
)

// Issuer is the part of an issuer's spec that describes its Vault server.
type Issuer struct {
	// UID and Generation identify the issuer and the version of its spec.
	UID        string
	Generation int64
	// Kind, Namespace and Name identify the object; a ClusterIssuer has no namespace.
	Kind, Namespace, Name string
	// SecretNamespace is the namespace of its Secrets.
	SecretNamespace string

	// Server is the base URL as in the spec; a path in it is kept.
	Server string
	// Path is the path of the API that signs, such as pki/sign/web.
	Path string
	// VaultNamespace is the namespace in Vault; empty means none.
	VaultNamespace string
	// ServerName is the name in the server's certificate; empty means the host in
	// Server.
	ServerName string
	// CABundle contains the CAs of the server in PEM. If it is empty, CABundleRef
	// references them; without both, the CAs of this host are trusted.
	CABundle    []byte
	CABundleRef *SecretKey
	// ClientCertRef and ClientKeyRef are the client certificate of all connections.
	// Both are set, or none.
	ClientCertRef, ClientKeyRef *SecretKey
	Auth                        Auth
	// Loopback is set if the server may have a loopback address.
	Loopback bool
}

// SecretKey is a key of a Secret.
type SecretKey struct{ Name, Key string }

// Auth is the login method of an issuer. The first field that is set applies.
type Auth struct {
	// Token references a token of Vault.
	Token             *SecretKey
	AppRole           *AppRole
	ClientCertificate *ClientCertificate
	Kubernetes        *Kubernetes
	AWS               *AWS
}

// AppRole logs in by a role id and a secret id.
type AppRole struct {
	// Mount is the part of the path between auth/ and /login.
	Mount, RoleID string
	SecretID      SecretKey
}

// ClientCertificate logs in by a TLS client certificate.
type ClientCertificate struct {
	MountPath string
	// SecretName is a Secret with tls.crt and tls.key; without it, the client
	// certificate of all connections is used.
	SecretName string
	// Role may be empty: any role that matches the certificate.
	Role string
}

// Kubernetes logs in by a token of a service account, from a Secret or from the
// API.
type Kubernetes struct {
	MountPath, Role string
	// JWT is the Secret; with an empty name, ServiceAccount is set.
	JWT            SecretKey
	ServiceAccount *ServiceAccount
}

// AWS logs in as an IAM role, which a service account may assume.
type AWS struct {
	MountPath, Role, Region string
	// ServiceAccount is nil for the credentials of this host.
	ServiceAccount *ServiceAccount
	IAMRoleARN     string
	HeaderValue    string
}

// ServiceAccount is a service account whose tokens are for certain audiences.
type ServiceAccount struct {
	Name      string
	Audiences []string
}

// Access reads what an issuer refers to, with the identity of the caller.
type Access struct {
	// Secret returns a Secret of the issuer. Its error is shown to users.
	Secret func(ctx context.Context, name string) (Secret, error)
	// Token returns a new token of a service account beside the Secrets, which is
	// valid for ten minutes. Its error is shown to users.
	Token func(ctx context.Context, serviceAccount string, audiences []string) (string, error)
}

// Secret is the content of a Secret.
type Secret struct {
	Data map[string][]byte
	// Version is another one after each change.
	Version string
}

// label is the name of the issuer in metrics.
func (i Issuer) label() string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}

// audience is the audience of service account tokens that is the issuer's own.
func (i Issuer) audience() string { return "vault://" + i.label() }

// credential is a secret value that no log and no error shows.
type credential = outbound.Credential
