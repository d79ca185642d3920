package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyQuota is how many requests a policy lets through in any period of a
// length. A request counts when its approval is written, and a pod's request,
// which has no approval, before its certificate is signed. An Allow policy counts
// what it lets through, a Limit whatever it is about.
type PolicyQuota struct {
	// name is unique in the policy. Tests, exceptions and metrics refer to the
	// quota by it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// certificates is the largest number.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Certificates int32 `json:"certificates"`
	// per is the length of the period, from 1m to 168h.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Per metav1.Duration `json:"per"`
	// by says what has a quota of its own: each Requester, Namespace,
	// ServiceAccount, Node, Pod or Signer. Policy: all requests together. The
	// namespace, service account or node is that of a request, or that of its
	// requester. A request that has none counts for its requester.
	By QuotaBy `json:"by"`
}

// QuotaBy says what has a quota of its own.
//
// +kubebuilder:validation:Enum=Requester;Namespace;ServiceAccount;Node;Pod;Signer;Policy
type QuotaBy string

// What can have a quota of its own.
const (
	QuotaByRequester      QuotaBy = "Requester"
	QuotaByNamespace      QuotaBy = "Namespace"
	QuotaByServiceAccount QuotaBy = "ServiceAccount"
	QuotaByNode           QuotaBy = "Node"
	QuotaByPod            QuotaBy = "Pod"
	QuotaBySigner         QuotaBy = "Signer"
	QuotaByPolicy         QuotaBy = "Policy"
)

// DecisionQuota is how much of a quota was used at the time of a decision.
type DecisionQuota struct {
	// policy and name are those of the quota.
	Policy string  `json:"policy"`
	Name   string  `json:"name"`
	By     QuotaBy `json:"by"`
	// key is the requester, namespace or other whose quota it is.
	//
	// +optional
	Key string `json:"key,omitempty"`
	// certificates and per are what the policy says.
	Certificates int32           `json:"certificates"`
	Per          metav1.Duration `json:"per"`
	// used is the number of requests that count.
	Used int32 `json:"used"`
	// counted: the request is one of them, or has been.
	//
	// +optional
	Counted bool `json:"counted,omitempty"`
	// again is when one more fits, if none does now.
	//
	// +optional
	Again *metav1.Time `json:"again,omitempty"`
}
