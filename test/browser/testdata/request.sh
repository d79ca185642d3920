# Makes a CertificateRequest for a DNS name: request.sh NAME DNSNAME
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -subj / -addext "subjectAltName=DNS:$2" -out "$1.csr" 2>/dev/null
certplane kubectl create -f - <<REQUEST
apiVersion: cert-manager.io/v1
kind: CertificateRequest
metadata: {name: $1, namespace: shop}
spec:
  request: $(base64 -w0 "$1.csr")
  usages: [digital signature, server auth]
  issuerRef: {name: internal}
REQUEST
