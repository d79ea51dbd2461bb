# METADATA
# title: cost-center
# description: Every service says who pays for it, and nobody below changes that.
# custom:
#   policy_type: Global
#   priority: 100
#   test_cases:
#   - name: the tenant pays when nobody else is named
#     request: {request_payload: {service_type: vm}, tenant_id: shop}
#     expect: {status: modified, request_payload: {service_type: vm, metadata: {labels: {cost_center: shop}}}}
#   - name: who is named pays
#     request: {request_payload: {service_type: vm, metadata: {labels: {cost_center: lab}}}, tenant_id: shop}
#     expect: {status: approved}
#   - name: somebody has to
#     request: {request_payload: {service_type: vm}}
#     expect: {status: rejected, reason: cost_center}
package dcm.policy.cost_center

named := input.current_request_payload.metadata.labels.cost_center

payer := named

payer := input.tenant_id if {
	not named
	input.tenant_id != ""
}

result := {"reject": true, "reason": "nobody pays: set metadata.labels.cost_center"} if not payer

result := {
	"patch": {"metadata": {"labels": {"cost_center": payer}}},
	"constraints": {"metadata.labels.cost_center": {"mode": "immutable"}},
} if payer
