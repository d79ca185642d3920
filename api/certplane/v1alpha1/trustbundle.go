package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrustBundle collects root certificates from several sources and keeps them in objects that
// programs can mount. The controller trustbundles only copies certificates: a source that
// contains anything else is refused.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].reason`
// +kubebuilder:printcolumn:name="Roots",type=integer,JSONPath=`.status.rootCount`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name is a label of the target: it must have at most 63 characters"
// +kubebuilder:validation:XValidation:rule="!self.spec.sources.exists(s, has(s.trustBundle) && s.trustBundle.name == self.metadata.name)",fieldPath=".spec.sources",message="a TrustBundle cannot be its own source"
type TrustBundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TrustBundleSpec   `json:"spec"`
	Status TrustBundleStatus `json:"status,omitempty"`
}

// TrustBundleList is a list of TrustBundles.
//
// +kubebuilder:object:root=true
type TrustBundleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrustBundle `json:"items"`
}

// TrustBundleSpec is the specification of a TrustBundle.
type TrustBundleSpec struct {
	// sources are where the roots come from. Each root is in the result once.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Sources []TrustSource `json:"sources"`
	// target is the objects that get the roots. Default: a ConfigMap.
	// +kubebuilder:default={configMap: {}}
	Target *TrustTarget `json:"target,omitempty"`
	// overlap is how long a root stays in the target after a renewal has removed it from
	// its source, a secret or an issuer, but never after the root expires. All other roots
	// leave the target as soon as they leave their source. 0s: no overlap. At most 8760h.
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,8}s)?$') && duration(self) <= duration('8760h')",message="must be from 0s to 8760h"
	Overlap *metav1.Duration `json:"overlap,omitempty"`
	// distrusted are the SHA-256 fingerprints of certificates that never reach a target,
	// in hexadecimal digits, with or without colons. They also end an overlap.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=95
	// +kubebuilder:validation:items:Pattern=`^([0-9a-fA-F]{2}:?){31}[0-9a-fA-F]{2}$`
	// +listType=set
	Distrusted []string `json:"distrusted,omitempty"`
	// filter excludes certificates of the sources.
	// +kubebuilder:default={}
	Filter TrustFilter `json:"filter,omitempty"`
}

// TrustFilter excludes certificates.
type TrustFilter struct {
	// expired excludes expired certificates.
	// +kubebuilder:default=true
	Expired *bool `json:"expired,omitempty"`
	// nonCA excludes certificates that are not CAs.
	// +kubebuilder:default=true
	NonCA *bool `json:"nonCA,omitempty"`
}

// TrustSource is where roots come from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.configMap), has(self.secret), has(self.inLine), has(self.signer), has(self.clusterTrustBundle), has(self.issuer), has(self.trustBundle), has(self.defaultCAs)].filter(set, set).size() == 1",message="exactly one source must be set"
type TrustSource struct {
	// configMap is a ConfigMap in this namespace, or those that a selector selects.
	ConfigMap *TrustObject `json:"configMap,omitempty"`
	// secret is a Secret in this namespace, or those that a selector selects. Only
	// certificates are copied: if a key contains anything else, the source is refused.
	Secret *TrustObject `json:"secret,omitempty"`
	// inLine contains certificates in PEM.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	InLine string `json:"inLine,omitempty"`
	// signer is a signer, such as example.com/web: all its ClusterTrustBundles are read.
	Signer *TrustName `json:"signer,omitempty"`
	// clusterTrustBundle is a ClusterTrustBundle.
	ClusterTrustBundle *TrustName `json:"clusterTrustBundle,omitempty"`
	// issuer is a CA issuer of cert-manager.io: the root of its CA is read, or the highest
	// CA that its Secret contains.
	Issuer *TrustIssuer `json:"issuer,omitempty"`
	// trustBundle is another TrustBundle in this namespace: the roots in its targets are
	// read.
	TrustBundle *TrustName `json:"trustBundle,omitempty"`
	// defaultCAs are the public CAs in the file that the setting
	// trustManager.defaultPackage names.
	DefaultCAs *TrustDefaultCAs `json:"defaultCAs,omitempty"`
}

// TrustDefaultCAs has no fields.
type TrustDefaultCAs struct{}

// TrustObject is one ConfigMap or Secret, or several.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.selector)",message="exactly one of name and selector must be set"
// +kubebuilder:validation:XValidation:rule="has(self.key) != (has(self.allKeys) && self.allKeys)",message="exactly one of key and allKeys must be set"
type TrustObject struct {
	// name is the name of the object, which must exist.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name,omitempty"`
	// selector selects objects by their labels. It may select none. It does not select the
	// targets of TrustBundles.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// key is the key that contains certificates in PEM, such as ca.crt.
	Key string `json:"key,omitempty"`
	// allKeys reads all keys of the object.
	AllKeys bool `json:"allKeys,omitempty"`
}

// TrustIssuer is an issuer of cert-manager.io.
type TrustIssuer struct {
	// kind is Issuer, for an Issuer in this namespace, or ClusterIssuer.
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:Enum=Issuer;ClusterIssuer
	Kind string `json:"kind,omitempty"`
	// name is the name of the issuer.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// TrustName is the name of an object.
type TrustName struct {
	// name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=571
	Name string `json:"name"`
}

// TrustTarget is the objects that get the roots.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMap) || has(self.secret) || has(self.clusterTrustBundle)",message="at least one of configMap, secret and clusterTrustBundle must be set"
type TrustTarget struct {
	// configMap is a ConfigMap in this namespace.
	ConfigMap *TrustKeys `json:"configMap,omitempty"`
	// secret is a Secret in this namespace, for programs that cannot read ConfigMaps. The
	// setting trustBundles.secretTargets must be true.
	Secret *TrustKeys `json:"secret,omitempty"`
	// clusterTrustBundle is a ClusterTrustBundle without a signer. Users who write a spec
	// that has it need the verbs create and update on the ClusterTrustBundle.
	ClusterTrustBundle *TrustClusterTarget `json:"clusterTrustBundle,omitempty"`
}

// TrustKeys are the keys of a ConfigMap or Secret that gets the roots.
//
// +kubebuilder:validation:XValidation:rule="!has(self.formats) || self.formats.all(f, f.key != self.key && self.formats.exists_one(g, g.key == f.key))",fieldPath=".formats",message="a key is used twice"
type TrustKeys struct {
	// name is the name of the object. Default: the name of the TrustBundle.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// key is the key that gets the roots in PEM.
	// +kubebuilder:default="ca.crt"
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// formats are keystores with the same roots, for Java and other programs.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Formats []TrustFormat `json:"formats,omitempty"`
}

// TrustFormat is a keystore in a target.
//
// +kubebuilder:validation:XValidation:rule="self.format == 'PKCS12' || !has(self.profile)",fieldPath=".profile",message="only PKCS12 has profiles"
type TrustFormat struct {
	// key is the key that gets the keystore, such as truststore.p12.
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
	// format is PKCS12 or JKS.
	// +kubebuilder:validation:Enum=PKCS12;JKS
	Format string `json:"format"`
	// password protects nothing, because all readers of the target can read the
	// TrustBundle or guess it, but programs expect one. Default: changeit for JKS; none for
	// PKCS12, which then is not encrypted.
	// +kubebuilder:validation:MaxLength=128
	Password string `json:"password,omitempty"`
	// profile is the encryption of PKCS12 with a password: LegacyRC2, LegacyDES or
	// Modern2023. Default: Modern2023.
	// +kubebuilder:validation:Enum=LegacyRC2;LegacyDES;Modern2023
	Profile string `json:"profile,omitempty"`
}

// TrustClusterTarget is a ClusterTrustBundle that gets the roots.
type TrustClusterTarget struct {
	// name is the name of the ClusterTrustBundle.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// TrustBundleStatus is the observed state of a TrustBundle.
type TrustBundleStatus struct {
	// conditions: Synced reports whether the targets have the roots of the sources, and why
	// not.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// digest is the SHA-256 digest of the roots in PEM, as in the target.
	Digest string `json:"digest,omitempty"`
	// rootCount is the number of roots.
	RootCount int32 `json:"rootCount,omitempty"`
	// roots are the roots, sorted by fingerprint.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=fingerprint
	Roots []TrustRoot `json:"roots,omitempty"`
}

// TrustRoot is a root in the target.
type TrustRoot struct {
	// fingerprint is the SHA-256 digest of the certificate, in hexadecimal digits.
	Fingerprint string `json:"fingerprint"`
	// subject is the subject of the certificate.
	Subject string `json:"subject,omitempty"`
	// notAfter is when the certificate expires.
	NotAfter metav1.Time `json:"notAfter"`
	// source is the source that has the root, or had it last.
	Source string `json:"source"`
	// retiredUntil is when the root leaves the target. Only roots that their source does
	// not have any more have it.
	RetiredUntil *metav1.Time `json:"retiredUntil,omitempty"`
	// certificate is the certificate of a retired root, in DER.
	Certificate []byte `json:"certificate,omitempty"`
}

// TrustSynced is the condition of TrustBundles. TrustBundleLabel on a target is the name of its
// TrustBundle, TrustNamespaceLabel on a ClusterTrustBundle the namespace of that, and
// TrustDigestAnnotation the digest of the roots.
const (
	TrustSynced           = "Synced"
	TrustBundleLabel      = "certplane.dev/trust-bundle"
	TrustNamespaceLabel   = "certplane.dev/trust-bundle-namespace"
	TrustDigestAnnotation = "certplane.dev/roots-digest"
)
