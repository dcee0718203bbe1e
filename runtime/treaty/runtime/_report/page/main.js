const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
drawTheme();
main.append(...drawHead(data));
if (data.run?.steps.length) main.append(drawSteps(data.run));
if (data.tree) {
  const root = buildNode(data.tree, null, data.leaves),
    tree = new Tree(root, data.checkpoints.length > 1);
  if (data.checkpoints.length > 1) main.append(drawChanges(data, tree));
  if (root.nbytes) main.append(drawTreemap(root, node => tree.show(node)));
  main.append(tree.element());
}
drawFoot(data);
