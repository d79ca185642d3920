package trustmanager

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Bundle writes certificates into an object of its name in each selected namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bundles,scope=Cluster
// +kubebuilder:printcolumn:name="ConfigMap Target",type=string,JSONPath=`.spec.target.configMap.key`
// +kubebuilder:printcolumn:name="Secret Target",type=string,JSONPath=`.spec.target.secret.key`
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type == "Synced")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type == "Synced")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Bundle struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata"`
	// spec is what to write, and where.
	// +required
	Spec BundleSpec `json:"spec,omitzero"`
	// status is set by the controller.
	Status BundleStatus `json:"status,omitzero"`
}

// BundleList is a list of Bundles.
//
// +kubebuilder:object:root=true
type BundleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Bundle `json:"items"`
}

// BundleSpec is the wanted state of a Bundle.
type BundleSpec struct {
	// sources are where the certificates come from. Targets hold each certificate once.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Sources []BundleSource `json:"sources,omitempty"`
	// target is where the certificates are written.
	Target BundleTarget `json:"target,omitzero"`
}

// BundleSource is a source of certificates in PEM.
//
// +structType=atomic
// +kubebuilder:validation:ExactlyOneOf=configMap;secret;inLine;useDefaultCAs
type BundleSource struct {
	// configMap selects keys of ConfigMaps in the trust namespace.
	ConfigMap *ObjectKeys `json:"configMap,omitempty"`
	// secret selects keys of Secrets in the trust namespace.
	Secret *ObjectKeys `json:"secret,omitempty"`
	// inLine holds certificates.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	InLine string `json:"inLine,omitempty"`
	// useDefaultCAs adds the package of public CAs of the controller's configuration.
	UseDefaultCAs *bool `json:"useDefaultCAs,omitempty"`
}

// ObjectKeys selects objects in the trust namespace and keys of their data.
//
// +structType=atomic
// +kubebuilder:validation:ExactlyOneOf=name;selector
type ObjectKeys struct {
	// name is the name of one object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// selector selects objects by their labels. It may select none.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// key is the key to read. It is required unless includeAllKeys is true.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// includeAllKeys reads all keys, except of a Secret of the type kubernetes.io/tls.
	IncludeAllKeys *bool `json:"includeAllKeys,omitempty"`
}

// BundleTarget describes the objects that are written.
//
// +kubebuilder:validation:AtLeastOneOf=configMap;secret
type BundleTarget struct {
	// configMap writes a ConfigMap.
	ConfigMap *TargetTemplate `json:"configMap,omitempty"`
	// secret writes a Secret, if the configuration of the controller permits it.
	Secret *TargetTemplate `json:"secret,omitempty"`
	// additionalFormats are keystores beside the PEM.
	AdditionalFormats *AdditionalFormats `json:"additionalFormats,omitempty"`
	// namespaceSelector selects namespaces by their labels. Default: all namespaces.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// AdditionalFormats are keystores of the certificates.
//
// +kubebuilder:validation:AtLeastOneOf=jks;pkcs12
type AdditionalFormats struct {
	// jks writes a Java keystore. Deprecated: Java reads PKCS#12.
	JKS *JKS `json:"jks,omitempty"`
	// pkcs12 writes a PKCS#12 keystore.
	PKCS12 *PKCS12 `json:"pkcs12,omitempty"`
}

// JKS is a Java keystore.
//
// +structType=atomic
// +kubebuilder:validation:MinProperties=1
type JKS struct {
	KeySelector `json:",inline"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:default=changeit
	Password string `json:"password,omitempty"`
}

// PKCS12 is a PKCS#12 keystore.
//
// +structType=atomic
// +kubebuilder:validation:MinProperties=1
type PKCS12 struct {
	KeySelector `json:",inline"`
	// password is the password. Without one, the keystore is not encrypted.
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:default=""
	Password *string `json:"password,omitempty"`
	// profile is the set of algorithms. OpenSSL 3 and Java 20 do not read LegacyRC2.
	// Default: LegacyRC2.
	Profile PKCS12Profile `json:"profile,omitempty"`
}

// PasswordText returns the password, which can be empty.
func (p *PKCS12) PasswordText() string { return ptr.Deref(p.Password, "") }

// PKCS12Profile is a set of algorithms, one of cert-manager's profiles.
//
// +kubebuilder:validation:Enum=LegacyRC2;LegacyDES;Modern2023
type PKCS12Profile string

// KeySelector names a key of the target's data.
type KeySelector struct {
	// key is the key in the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// TargetTemplate describes the object of one kind in each namespace.
type TargetTemplate struct {
	KeySelector `json:",inline"`
	// metadata is copied to the object.
	Metadata TargetMetadata `json:"metadata,omitzero"`
}

// TargetMetadata is metadata of targets.
//
// +kubebuilder:validation:MinProperties=1
type TargetMetadata struct {
	// +kubebuilder:validation:MinProperties=1
	Annotations map[string]string `json:"annotations,omitempty"`
	// +kubebuilder:validation:MinProperties=1
	Labels map[string]string `json:"labels,omitempty"`
}

// BundleStatus is the observed state of a Bundle.
//
// +kubebuilder:validation:MinProperties=1
type BundleStatus struct {
	// conditions contain Synced: whether all targets are up to date.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=0
	// +kubebuilder:validation:MaxItems=10
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// defaultCAVersion identifies the package of public CAs in the targets.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DefaultCAVersion string `json:"defaultCAVersion,omitempty"`
}
