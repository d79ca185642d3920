package approverpolicy

import (
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CertificateRequestPolicy approves or denies CertificateRequests. The policies that select
// a request and that its requester may use decide about it: the request is approved if one
// of them permits all its content, and denied if such policies exist but none permits it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=certificaterequestpolicies,scope=Cluster,shortName=crp,categories=cert-manager
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type == "Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CertificateRequestPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec Spec `json:"spec"`
	// +optional
	Status Status `json:"status,omitempty"`
}

// CertificateRequestPolicyList is a list of CertificateRequestPolicies.
//
// +kubebuilder:object:root=true
type CertificateRequestPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CertificateRequestPolicy `json:"items"`
}

// Spec is the specification of a policy.
type Spec struct {
	// allowed lists the permitted content of requests. Attributes that are not listed must
	// be absent from the request.
	//
	// +optional
	Allowed *Allowed `json:"allowed,omitempty"`
	// constraints are limits for properties of every request. Properties that are not
	// listed are not limited.
	//
	// +optional
	Constraints *Constraints `json:"constraints,omitempty"`
	// plugins are the settings of extensions that are built into approver-policy. certplane
	// does not support plugins: policies with plugins are refused.
	//
	// +optional
	Plugins map[string]Plugin `json:"plugins,omitempty"`
	// selector selects the requests to which the policy applies. At least one field is
	// required.
	Selector Selector `json:"selector"`
}

// Allowed is the permitted content of requests.
type Allowed struct {
	// commonName is the common name in the subject.
	//
	// +optional
	CommonName *AllowedValue `json:"commonName,omitempty"`
	// dnsNames are alternative names.
	//
	// +optional
	DNSNames *AllowedValues `json:"dnsNames,omitempty"`
	// ipAddresses are alternative names.
	//
	// +optional
	IPAddresses *AllowedValues `json:"ipAddresses,omitempty"`
	// uris are alternative names.
	//
	// +optional
	URIs *AllowedValues `json:"uris,omitempty"`
	// emailAddresses are alternative names.
	//
	// +optional
	EmailAddresses *AllowedValues `json:"emailAddresses,omitempty"`
	// isCA permits requests whose spec.isCA is true.
	//
	// +optional
	IsCA *bool `json:"isCA,omitempty"`
	// usages are the usages that the request's spec.usages may contain.
	//
	// +optional
	Usages *[]cmv1.KeyUsage `json:"usages,omitempty"`
	// subject sets the other permitted attributes of the subject.
	//
	// +optional
	Subject *AllowedSubject `json:"subject,omitempty"`
	// otherNames are alternative names of the type otherName, by their object
	// identifier.
	//
	// +listType=map
	// +listMapKey=oid
	// +optional
	OtherNames []AllowedByOID `json:"otherNames,omitempty"`
}

// AllowedSubject is the permitted content of the subject, other than the common name.
type AllowedSubject struct {
	// organizations are the attributes O.
	//
	// +optional
	Organizations *AllowedValues `json:"organizations,omitempty"`
	// countries are the attributes C.
	//
	// +optional
	Countries *AllowedValues `json:"countries,omitempty"`
	// organizationalUnits are the attributes OU.
	//
	// +optional
	OrganizationalUnits *AllowedValues `json:"organizationalUnits,omitempty"`
	// localities are the attributes L.
	//
	// +optional
	Localities *AllowedValues `json:"localities,omitempty"`
	// provinces are the attributes ST.
	//
	// +optional
	Provinces *AllowedValues `json:"provinces,omitempty"`
	// streetAddresses are the attributes STREET.
	//
	// +optional
	StreetAddresses *AllowedValues `json:"streetAddresses,omitempty"`
	// postalCodes are the attributes postalCode.
	//
	// +optional
	PostalCodes *AllowedValues `json:"postalCodes,omitempty"`
	// serialNumber is the attribute serialNumber.
	//
	// +optional
	SerialNumber *AllowedValue `json:"serialNumber,omitempty"`
	// otherAttributes are attributes without a field here, by their object identifier.
	//
	// +listType=map
	// +listMapKey=oid
	// +optional
	OtherAttributes []AllowedByOID `json:"otherAttributes,omitempty"`
}

// AllowedValue is the condition on an attribute with one value. If neither value nor
// validations are set, the attribute must be absent.
type AllowedValue struct {
	// value is a pattern in which a * matches any run of characters.
	//
	// +optional
	Value *string `json:"value,omitempty"`
	// required is true if the attribute must not be absent.
	//
	// +optional
	Required *bool `json:"required,omitempty"`
	// validations are rules that the value must meet.
	//
	// +listType=map
	// +listMapKey=rule
	// +optional
	Validations []ValidationRule `json:"validations,omitempty"`
}

// AllowedValues is the condition on an attribute with several values. If neither values nor
// validations are set, the attribute must be absent.
type AllowedValues struct {
	// values are patterns in which a * matches any run of characters. Each value of the
	// attribute must match one of them; an empty list matches no value.
	//
	// +optional
	Values *[]string `json:"values,omitempty"`
	// required is true if the attribute must not be absent.
	//
	// +optional
	Required *bool `json:"required,omitempty"`
	// validations are rules that each value must meet.
	//
	// +listType=map
	// +listMapKey=rule
	// +optional
	Validations []ValidationRule `json:"validations,omitempty"`
}

// AllowedByOID is the condition on the values with an object identifier.
type AllowedByOID struct {
	// oid is the object identifier, such as 1.3.6.1.4.1.311.20.2.3.
	OID           string `json:"oid"`
	AllowedValues `json:",inline"`
}

// ValidationRule is a rule in the Common Expression Language (CEL).
type ValidationRule struct {
	// rule is an expression with a boolean result. The variable self is the value; cr is
	// the request, with name, namespace, username and groups.
	Rule string `json:"rule"`
	// message is the reason that the requester gets if the rule is not met.
	//
	// +optional
	Message *string `json:"message,omitempty"`
}

// Constraints are limits for properties of every request.
type Constraints struct {
	// minDuration is the shortest permitted duration. If it is set, requests must set a
	// duration.
	//
	// +optional
	MinDuration *metav1.Duration `json:"minDuration,omitempty"`
	// maxDuration is the longest permitted duration. If it is set, requests must set a
	// duration.
	//
	// +optional
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
	// privateKey limits the key of the request.
	//
	// +optional
	PrivateKey *PrivateKeyConstraints `json:"privateKey,omitempty"`
}

// PrivateKeyConstraints limit keys.
type PrivateKeyConstraints struct {
	// algorithm is the only permitted algorithm.
	//
	// +optional
	Algorithm *cmv1.PrivateKeyAlgorithm `json:"algorithm,omitempty"`
	// minSize is the smallest permitted size in bits.
	//
	// +optional
	MinSize *int `json:"minSize,omitempty"`
	// maxSize is the largest permitted size in bits.
	//
	// +optional
	MaxSize *int `json:"maxSize,omitempty"`
}

// Plugin contains the settings of an extension.
type Plugin struct {
	// values are the settings.
	//
	// +optional
	Values map[string]string `json:"values,omitempty"`
}

// Selector selects the requests to which a policy applies: all fields must match.
type Selector struct {
	// issuerRef selects requests by issuer. {} selects all.
	//
	// +optional
	IssuerRef *IssuerSelector `json:"issuerRef,omitempty"`
	// namespace selects requests by namespace. {} selects all.
	//
	// +optional
	Namespace *NamespaceSelector `json:"namespace,omitempty"`
}

// IssuerSelector selects requests by their issuer. The fields are patterns in which a *
// matches any run of characters. A missing field matches everything.
type IssuerSelector struct {
	// name is compared with the name of the issuer.
	//
	// +optional
	Name *string `json:"name,omitempty"`
	// kind is compared with the kind of the issuer. A request without a kind means Issuer.
	//
	// +optional
	Kind *string `json:"kind,omitempty"`
	// group is compared with the API group of the issuer. A request without a group means
	// cert-manager.io.
	//
	// +optional
	Group *string `json:"group,omitempty"`
}

// NamespaceSelector selects requests by their namespace.
type NamespaceSelector struct {
	// matchNames are patterns in which a * matches any run of characters. One of them must
	// match the name of the namespace; an empty list matches all.
	//
	// +optional
	MatchNames []string `json:"matchNames,omitempty"`
	// matchLabels are labels that the Namespace must have.
	//
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// ConditionReady is the type of the condition that reports whether a policy is evaluated.
const ConditionReady = "Ready"

// Status is the status of a policy.
type Status struct {
	// conditions are the conditions of the policy. Ready reports whether it is evaluated.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
