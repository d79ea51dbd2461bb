# METADATA
# title: vm-sizes
# description: A machine has 1 to 16 cores, in production at least 2, and 1 to 8 GiB for each.
# custom:
#   policy_type: Global
#   service_type: vm
#   priority: 200
#   test_cases:
#   - name: what is not said is small
#     request: {request_payload: {service_type: vm}}
#     expect: {status: modified, request_payload: {service_type: vm, cpu: 1, memory: 2}}
#   - name: production starts with two cores
#     request: {request_payload: {service_type: vm, cpu: 1, memory: 4, metadata: {labels: {env: prod}}}}
#     expect: {status: rejected, reason: minimum}
#   - name: too many cores
#     request: {request_payload: {service_type: vm, cpu: 32, memory: 64}}
#     expect: {status: rejected, reason: maximum}
#   - name: too much memory for so few cores
#     request: {request_payload: {service_type: vm, cpu: 2, memory: 32}}
#     expect: {status: rejected, reason: "memory: maximum"}
package dcm.policy.vm_sizes

request := input.current_request_payload

default fewest := 1

fewest := 2 if request.metadata.labels.env == "prod"

cores := object.get(request, "cpu", fewest)

memory := object.get(request, "memory", 2 * cores)

result := {
	"patch": {field: value | some field, value in {"cpu": cores, "memory": memory}; not request[field]},
	"constraints": {
		"cpu": {"type": "integer", "minimum": fewest, "maximum": 16},
		"memory": {"type": "integer", "minimum": cores, "maximum": 8 * cores},
	},
}
